"""The ledger's store is away for an hour: drivers end and are started again, and copy nothing that they cannot record.

What was on its way when it went is found at the target by the one that comes after it.
"""

import pytest

from ledger.store import answers
from tests.simulation.ledger.opened import OpenedSnapshot
from tests.support.changing_pairs import TOPICS, ChangingPair

_AN_HOUR_S = 3_600.0
_STARTED_AGAIN_S = 10.0
"""What a service manager waits."""
_A_ROUND_S = 2.0
PLACES = [(topic, number) for topic, count in TOPICS.items() for number in range(count)]


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.3])
def test_nothing_is_lost_or_there_twice_after_an_hour_without_the_ledger(after_s: float) -> None:
    """`after_s`: so long after new records came the store goes away, in the middle of a round."""
    pair = ChangingPair()
    pair.forward.meanwhile = lambda: pair.schedule.wait(_STARTED_AGAIN_S) if pair.ledger.is_away else None
    known = len(pair.ledger.rows("offset_syncs"))
    for place in PLACES:
        assert pair.produce(*place)
    pair.schedule.wait(after_s)
    pair.ledger.is_away = True
    pair.schedule.wait(_A_ROUND_S)
    at_west = pair.values(pair.west)
    ends = pair._world.tally["drivers ended by LedgerUnavailableError"]
    for minute in range(60):
        if minute % 10 == 0:
            assert pair.produce(*PLACES[minute // 10 % len(PLACES)])
        pair.schedule.wait(_AN_HOUR_S / 60)
    assert pair.values(pair.west) == at_west, "nothing is copied that cannot be recorded"
    assert pair._world.tally["drivers ended by LedgerUnavailableError"] > ends + 100, (
        "each said so, and ended"
    )

    pair.ledger.is_away = False
    pair.until(lambda: pair.is_copied, "all is copied")
    pair.recorders.record_all()
    assert pair.values(pair.west) == pair.values(pair.east), "each record once, in order"
    assert len(pair.ledger.rows("offset_syncs")) > known
    found = answers.audit_rows(OpenedSnapshot(pair.ledger))  # type: ignore[arg-type]
    assert not any(found.values()), found
    pair.end()
