"""Invariant L4 on the writer's side: numbers that are never given twice, one order, nothing failed in silence."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ledger.errors import LedgerUnavailableError, PreconditionError, ShutOutError
from ledger.facts.roles import writer_of
from ledger.facts.state import FactLog, WriterClaim
from ledger.facts.tables import CHECKPOINTS, OFFSET_SYNCS, OPERATIONS, STAMP, WRITERS, Row
from ledger.store.session import CLAIMED_WITHIN_S, FLOW_TABLES, WriterSession
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import row
from tests.support.ledgers import claim_of

SYNCS = OFFSET_SYNCS.name
STAMPED = {column.name for column in STAMP}
WAITS_S = 10.0


class FailingLog(MemoryFactLog):
    """Raises what `fails` says, before or after the rows are in."""

    def __init__(self, ledger: MemoryLedger) -> None:
        super().__init__(ledger, FakeClock())
        self.before: Callable[[str, int], None] = lambda _table, _number: None
        self.after: Callable[[str, int], None] = lambda _table, _number: None

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        self.before(table, round_number)
        super().append(claim, table, round_number, rows)
        self.after(table, round_number)


@dataclass(slots=True)
class Ledger:
    tables: MemoryLedger = field(default_factory=MemoryLedger)

    def rounds(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Of each row in the order of the commits: its round, and these columns."""
        names = ("round", *columns)
        return [tuple(found[name] for name in names) for found in self.tables.rows(table)]

    def log(self) -> FailingLog:
        return FailingLog(self.tables)


def of(table: str, **columns: object) -> Row:
    """A row without its stamp."""
    return {name: value for name, value in row(table, **columns).items() if name not in STAMPED}


def claimed(log: FactLog) -> WriterSession:
    return WriterSession.claimed(log, writer_of("f"), FLOW_TABLES, claim_of("f"))


def unavailable(table: str, number: int) -> None:
    raise LedgerUnavailableError(f"{table} does not answer at round {number}")


def once(fault: Callable[[str, int], None], *, at: int) -> Callable[[str, int], None]:
    """The fault at one round only."""

    def strike(table: str, number: int) -> None:
        if number == at:
            fault(table, number)

    return strike


def test_all_that_an_epoch_appends_is_in_one_order_whatever_its_table() -> None:
    ledger = Ledger()
    session = claimed(ledger.log())
    assert session.last_round == 0
    with session:
        session.append(SYNCS, [of(SYNCS)])
        session.append_in_background(SYNCS, [of(SYNCS)])
        session.append(OPERATIONS.name, [of(OPERATIONS.name)])
        session.alive_in_background()
    session.release()
    assert ledger.rounds(SYNCS) == [(1,), (2,)]
    assert ledger.rounds(OPERATIONS.name) == [(3,)]
    assert ledger.rounds(WRITERS.name, "event") == [(0, "claimed"), (4, "alive"), (5, "released")]
    assert session.last_round == 5


def test_what_is_found_at_one_time_is_one_round_of_several_tables() -> None:
    ledger = Ledger()
    session = claimed(ledger.log())
    number = session.append_round({SYNCS: [of(SYNCS)], OPERATIONS.name: [of(OPERATIONS.name)]})
    assert number == 1
    assert ledger.rounds(SYNCS) == ledger.rounds(OPERATIONS.name) == [(1,)]


@pytest.mark.parametrize("is_in_the_ledger", [False, True])
def test_the_number_of_an_append_whose_outcome_is_not_known_is_given_to_no_other_rows(
    is_in_the_ledger: bool,
) -> None:
    """Delta skips a number that it has in silence: what got it a second time would be nowhere."""
    ledger = Ledger()
    log = ledger.log()
    fault = once(unavailable, at=1)
    log.before, log.after = (log.before, fault) if is_in_the_ledger else (fault, log.after)
    session = claimed(log)
    with pytest.raises(LedgerUnavailableError):
        session.append(SYNCS, [of(SYNCS, source_end=7)])
    session.append(SYNCS, [of(SYNCS, source_end=9)])
    first = [(1, 7)] if is_in_the_ledger else []
    assert ledger.rounds(SYNCS, "source_end") == [*first, (2, 9)]


def test_what_failed_in_the_background_is_raised_by_the_next_append_and_its_number_is_gone() -> None:
    ledger = Ledger()
    log = ledger.log()
    log.before = once(unavailable, at=1)
    session = claimed(log)
    with session:
        session.append_in_background(SYNCS, [of(SYNCS)])
        with pytest.raises(LedgerUnavailableError, match="at round 1"):
            session.append_in_background(SYNCS, [of(SYNCS)])
        session.append_in_background(SYNCS, [of(SYNCS)])
    assert ledger.rounds(SYNCS) == [(2,)]


def test_what_failed_in_the_background_is_raised_at_the_end() -> None:
    log = Ledger().log()
    log.before = unavailable
    session = claimed(log)
    with pytest.raises(LedgerUnavailableError, match="at round 1"), session:
        session.append_in_background(SYNCS, [of(SYNCS)])


def test_an_error_within_the_context_is_not_hidden_by_the_append_that_failed_beside_it() -> None:
    log = Ledger().log()
    log.before = unavailable
    session = claimed(log)

    def fall_over() -> None:
        with session:
            session.append_in_background(SYNCS, [of(SYNCS)])
            raise KeyError

    with pytest.raises(KeyError):
        fall_over()


def test_nothing_is_appended_in_the_background_for_no_rows() -> None:
    ledger = Ledger()
    session = claimed(ledger.log())
    with session:
        session.append_in_background(SYNCS, [])
    assert session.last_round == 0


def test_the_caller_goes_on_while_one_append_is_under_way_and_waits_before_the_next() -> None:
    ledger = Ledger()
    log, may_append = ledger.log(), threading.Event()
    log.before = lambda _table, _number: require(may_append)
    session = claimed(log)
    with session:
        session.append_in_background(SYNCS, [of(SYNCS)])
        assert ledger.rounds(SYNCS) == []
        may_append.set()
        session.wait()
        assert ledger.rounds(SYNCS) == [(1,)]


def test_a_release_is_the_last_word_behind_what_appends_in_the_background() -> None:
    ledger = Ledger()
    log, may_append = ledger.log(), threading.Event()
    log.before = once(lambda _table, _number: require(may_append), at=1)
    session = claimed(log)
    with session:
        session.alive_in_background()
        releasing = threading.Thread(target=session.release)
        releasing.start()
        assert ledger.rounds(WRITERS.name) == [(0,)]
        may_append.set()
        releasing.join(WAITS_S)
    assert ledger.rounds(WRITERS.name, "event") == [(0, "claimed"), (1, "alive"), (2, "released")]


def test_rounds_rise_in_the_order_of_the_commits_though_several_threads_append() -> None:
    """A lower number behind a higher one would look like the append of an epoch that was shut out."""
    ledger = Ledger()
    log, has_number, is_second_there = ledger.log(), threading.Event(), threading.Event()

    def dawdle(_table: str, _number: int) -> None:
        has_number.set()
        is_second_there.wait(0.2)

    def append_second() -> None:
        require(has_number)
        session.append(OPERATIONS.name, [of(OPERATIONS.name)])
        is_second_there.set()

    log.before = once(dawdle, at=1)
    session = claimed(log)
    first = threading.Thread(target=session.append, args=(OPERATIONS.name, [of(OPERATIONS.name)]))
    second = threading.Thread(target=append_second)
    first.start()
    second.start()
    for thread in (first, second):
        thread.join(WAITS_S)
    assert ledger.rounds(OPERATIONS.name) == [(1,), (2,)]


def test_a_later_epoch_shuts_all_tables_of_the_earlier_session() -> None:
    ledger = Ledger()
    earlier = claimed(ledger.log())
    earlier.append(SYNCS, [of(SYNCS)])
    later = claimed(ledger.log())
    assert (earlier.epoch, later.epoch) == (1, 2)
    for table in FLOW_TABLES:
        with pytest.raises(ShutOutError):
            earlier.append(table, [of(table)])
    for told in (earlier.alive, earlier.release):
        with pytest.raises(ShutOutError):
            told()
    assert len(ledger.rounds(SYNCS)) == 1
    assert ledger.rounds(WRITERS.name, "writer_epoch", "event") == [(0, 1, "claimed"), (0, 2, "claimed")]


def test_nothing_is_appended_to_a_table_of_which_no_claim_shut_earlier_epochs_out() -> None:
    ledger = Ledger()
    session = claimed(ledger.log())
    with pytest.raises(AssertionError, match="checkpoints was not claimed"):
        session.append(CHECKPOINTS.name, [of(CHECKPOINTS.name)])
    assert ledger.rounds(CHECKPOINTS.name) == []


def test_signs_of_life_and_release_say_what_the_claim_said() -> None:
    ledger = Ledger()
    session = claimed(ledger.log())
    session.alive()
    session.release()
    told = [
        {name: value for name, value in found.items() if name not in {*STAMPED, "event", "shut_out"}}
        for found in ledger.tables.rows(WRITERS.name)
    ]
    assert len(told) == 3
    assert told[0] == told[1] == told[2]


class DyingLog(MemoryFactLog):
    """A process that is gone once it has shut earlier epochs out of the first table of its claim."""

    def _between_commits(self) -> None:
        raise _GoneError


class _GoneError(Exception):
    pass


def followed(ledger: Ledger, after: int, meanwhile: Callable[[], object]) -> WriterSession:
    def sleep(seconds: float) -> None:
        assert seconds == CLAIMED_WITHIN_S
        meanwhile()

    def last_epoch() -> int:
        return max(int(found["writer_epoch"]) for found in ledger.tables.rows(WRITERS.name))

    return WriterSession.following(
        ledger.log(),
        writer_of("f"),
        FLOW_TABLES,
        claim_of("f"),
        after=after,
        last_epoch=last_epoch,
        sleep=sleep,
    )


def test_an_epoch_that_a_process_began_to_claim_and_died_is_followed() -> None:
    ledger = Ledger()
    claimed(ledger.log())
    with pytest.raises(_GoneError):
        claimed(DyingLog(ledger.tables, FakeClock()))
    slept: list[bool] = []
    assert followed(ledger, 1, lambda: slept.append(True)).epoch == 3
    assert slept == [True]
    assert ledger.rounds(WRITERS.name, "writer_epoch", "event") == [(0, 1, "claimed"), (0, 3, "claimed")]


def test_an_epoch_that_another_process_claims_meanwhile_is_not_followed() -> None:
    ledger = Ledger()
    claimed(ledger.log())
    with pytest.raises(_GoneError):
        claimed(DyingLog(ledger.tables, FakeClock()))
    with pytest.raises(ShutOutError, match="after epoch 1"):
        followed(ledger, 1, lambda: claimed(ledger.log()))
    with pytest.raises(ShutOutError, match="epoch 3 is known"):
        followed(ledger, 1, lambda: None)
    assert ledger.rounds(WRITERS.name, "writer_epoch", "event") == [(0, 1, "claimed"), (0, 3, "claimed")]


def require(event: threading.Event) -> None:
    assert event.wait(WAITS_S)


# -- A claim that is held while something is read --------------------------------------------------


def events(ledger: Ledger) -> list[str]:
    return [event for _, event in ledger.rounds(WRITERS.name, "event")]


def test_a_claim_that_is_held_is_shown_to_be_alive_and_released_last() -> None:
    ledger = Ledger()
    with claimed(ledger.log()).held(0.01) as session:
        deadline = time.monotonic() + WAITS_S
        while len(events(ledger)) < 3:
            assert time.monotonic() < deadline, "heartbeats while the body reads"
            time.sleep(0.01)
        session.append(SYNCS, [of(SYNCS)])
    assert (events(ledger)[0], set(events(ledger)[1:-1]), events(ledger)[-1]) == (
        "claimed",
        {"alive"},
        "released",
    )
    rounds = [number for number, _ in ledger.rounds(WRITERS.name, "event")]
    assert rounds == sorted(set(rounds)), "each number once, in order"
    time.sleep(0.05)
    assert events(ledger)[-1] == "released", "nothing more is heard of it"


@pytest.mark.parametrize("is_kept_from_releasing", [False, True])
def test_a_claim_that_is_held_is_released_where_the_body_raises(is_kept_from_releasing: bool) -> None:
    ledger = Ledger()
    log = ledger.log()

    def fail(_table: str, _number: int) -> None:
        raise LedgerUnavailableError("no ledger at the release either")

    def read() -> None:
        with claimed(log).held(WAITS_S):
            if is_kept_from_releasing:
                log.before = fail
            raise PreconditionError("it cannot be paired")

    with pytest.raises(PreconditionError, match="cannot be paired"):
        read()
    assert events(ledger) == (["claimed"] if is_kept_from_releasing else ["claimed", "released"])


def test_who_was_shut_out_while_it_held_a_claim_releases_nothing() -> None:
    ledger = Ledger()
    session = claimed(ledger.log())
    later = claimed(ledger.log())

    def append() -> None:
        with session.held(WAITS_S):
            session.append(SYNCS, [of(SYNCS)])

    with pytest.raises(ShutOutError):
        append()
    assert later.epoch == session.epoch + 1
    assert events(ledger) == ["claimed", "claimed"]
