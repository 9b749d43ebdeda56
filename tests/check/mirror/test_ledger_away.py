"""The ledger's store is away for an hour: drivers wait, and copy nothing that they cannot record.

What was on its way when it went is found at the target, by the same process under its next claim.
"""

import pytest

from ledger.facts.roles import writer_of
from ledger.facts.tables import STAMP, WRITERS
from ledger.store import answers
from ledger.store.session import FLOW_TABLES
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.opened import OpenedSnapshot
from tests.support.changing_pairs import FORWARD, TOPICS, ChangingPair

_AN_HOUR_S = 3_600.0
_A_ROUND_S = 2.0
_LONGEST_PAUSE_S = 30.0
PLACES = [(topic, number) for topic, count in TOPICS.items() for number in range(count)]
_ENDED = "drivers ended by "


def claims(pair: ChangingPair) -> int:
    rows = [row for row in pair.ledger.rows("writers") if row["writer"] == writer_of(FORWARD)]
    return sum(row["event"] == "claimed" for row in rows)


def ended(pair: ChangingPair) -> dict[str, int]:
    return {name: count for name, count in pair._world.tally.items() if name.startswith(_ENDED)}


def written_when_the_ledger_goes(after_s: float, *, with_an_answer: bool = False) -> ChangingPair:
    """New records come, and so long after them the ledger goes, in the middle of a round."""
    pair = ChangingPair()
    for place in PLACES:
        assert pair.produce(*place)
    pair.schedule.wait(after_s)
    if with_an_answer:
        pair.ledger.goes_with_an_answer = True
        pair.until(lambda: pair.ledger.is_away, "it has taken an append")
    pair.ledger.is_away = True
    return pair


def require_all_copied_once(pair: ChangingPair) -> None:
    pair.until(lambda: pair.is_copied, "all is copied")
    pair.recorders.record_all()
    assert pair.values(pair.west) == pair.values(pair.east), "each record once, in order"
    found = answers.audit_rows(OpenedSnapshot(pair.ledger))  # type: ignore[arg-type]
    assert not any(found.values()), found
    pair.end()


@pytest.mark.parametrize(
    ("after_s", "with_an_answer"), [(0.0, False), (0.1, False), (0.3, False), (0.0, True), (0.3, True)]
)
def test_a_driver_waits_for_an_hour_and_nothing_is_lost_or_there_twice(
    after_s: float, with_an_answer: bool
) -> None:
    """`with_an_answer`: the store takes an append, and what it says of that is lost."""
    pair = written_when_the_ledger_goes(after_s, with_an_answer=with_an_answer)
    pair.schedule.wait(_A_ROUND_S)
    at_west, before = pair.values(pair.west), ended(pair)
    for minute in range(60):
        if minute % 10 == 0:
            assert pair.produce(*PLACES[minute // 10 % len(PLACES)])
        pair.schedule.wait(_AN_HOUR_S / 60)
    assert pair.values(pair.west) == at_west, "nothing is copied that cannot be recorded"
    pair.ledger.is_away = False
    known = claims(pair)
    pair.until(lambda: claims(pair) == known + 1, "claimed again")
    assert ended(pair) == before, "by the same process"
    require_all_copied_once(pair)


def test_a_ledger_that_is_there_for_moments_alone_cuts_claims_short() -> None:
    pair = written_when_the_ledger_goes(0.1)
    for number in range(100):
        pair.schedule.wait(1.0)
        pair.ledger.is_away = False
        pair.schedule.wait(0.05 + number % 5 * 0.1)
        pair.ledger.is_away = True
    pair.ledger.is_away = False
    require_all_copied_once(pair)
    assert not ended(pair).get(f"{_ENDED}ShutOutError", 0)


def test_who_has_claimed_the_flow_meanwhile_keeps_it() -> None:
    pair = written_when_the_ledger_goes(0.1)
    pair.schedule.wait(_AN_HOUR_S)
    pair.ledger.is_away = False
    [own, *_] = [row for row in pair.ledger.rows("writers") if row["writer"] == writer_of(FORWARD)]
    row = {column.name: own[column.name] for column in WRITERS.columns if column not in STAMP}
    fact_log = MemoryFactLog(pair.ledger, pair._world.clock)
    fact_log.claim(writer_of(FORWARD), FLOW_TABLES, {**row, "host": "another"})
    pair.schedule.wait(_LONGEST_PAUSE_S + _A_ROUND_S)
    assert ended(pair).get(f"{_ENDED}ShutOutError", 0) == 1
    require_all_copied_once(pair)
