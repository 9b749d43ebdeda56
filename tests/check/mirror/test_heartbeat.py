"""What a driver says of itself: signs of life, and its lag from its own rounds."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ledger.config.values import FlowConfig
from ledger.facts.syncs import NOTHING_KNOWN, PartitionPair
from ledger.facts.tables import OFFSET_SYNCS
from ledger.mirror.assignment import PartitionResult, Stop, StopCause
from ledger.mirror.progress import Heartbeat, Lag, RunSummary, SourceEnds, progress_of
from ledger.mirror.states import PartitionState
from ledger.roles import heartbeat_ms
from ledger.store.session import FLOW_TABLES, WriterSession
from tests.simulation.ledger.fact_log import MemoryFactLog
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.copy_tasks import SOURCE, TARGET, assignment, copied_up_to
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import row

# -- Signs of life ---------------------------------------------------------------------------------

WRITER = "flow:f"
FLOW = FlowConfig(name="f", source="a", target="b", topics=("t",), heartbeat_seconds=10)


def row_of(table: str) -> dict[str, object]:
    return dict(list(row(table).items())[4:])


class Beating:
    """A claimed flow on a memory ledger, with its clock."""

    def __init__(self) -> None:
        self.clock, self.ledger = FakeClock(), MemoryLedger()
        log = MemoryFactLog(self.ledger, self.clock)
        claim_row = {**row_of("writers"), "event": "claimed"}
        self.session = WriterSession.claimed(log, WRITER, FLOW_TABLES, claim_row)
        self.heartbeat = Heartbeat(FLOW, self.session, self.clock)

    def after(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.heartbeat.beat()
        self.session.wait()

    def append(self) -> None:
        self.session.append_in_background(OFFSET_SYNCS.name, [row_of(OFFSET_SYNCS.name)])

    def events(self) -> list[tuple[str, int]]:
        rows = self.ledger.at(self.ledger.latest()).relation("writers").to_pylist()
        return [(row["event"], row["round"]) for row in rows]


@pytest.fixture
def beating() -> Iterator[Beating]:
    made = Beating()
    with made.session:
        yield made


def test_a_sign_of_life_every_heartbeat_and_no_more(beating: Beating) -> None:
    for _ in range(5):
        beating.after(9)
    assert beating.events() == [("claimed", 0), ("alive", 1), ("alive", 2)]


def test_an_append_is_a_sign_of_life(beating: Beating) -> None:
    for _ in range(3):
        beating.after(6)
        beating.append()
    beating.after(9.9)
    assert beating.events() == [("claimed", 0)]
    beating.after(10)
    assert beating.events() == [("claimed", 0), ("alive", 4)]


def test_rounds_are_shared_with_what_is_copied(beating: Beating) -> None:
    beating.after(10)
    beating.append()
    assert beating.session.last_round == 2


def test_rounds_longer_than_a_heartbeat_are_allowed_for() -> None:
    assert heartbeat_ms(FLOW) == 10_000
    assert heartbeat_ms(FLOW.model_copy(update={"round_seconds": 25.0})) == 25_000


# -- Lag -------------------------------------------------------------------------------------------

PAIR = PartitionPair(SOURCE, TARGET)


def state(position: int, *, end_offset: int | None = None, topic_id: str = SOURCE.topic_id) -> PartitionState:
    pair = PartitionPair(replace(SOURCE, topic_id=topic_id), TARGET)
    return PartitionState(pair, copied_up_to(position), end_offset=end_offset)


def result(position: int, end: int | None) -> PartitionResult:
    return PartitionResult(
        assignment=assignment(),
        syncs=(),
        position=copied_up_to(position),
        tail=NOTHING_KNOWN,
        stop=None,
        trouble=None,
        source_ends=None if end is None else (end, end + 7),
    )


def seen(*rounds: tuple[float, int, int | None]) -> SourceEnds:
    """Rounds of one second: when each ended, the position then, and the source's end."""
    ends = SourceEnds()
    for now, position, end in rounds:
        ends.note([result(position, end)], asked_at=now - 1, now=now)
    return ends


def test_a_source_that_has_not_answered_is_unknown() -> None:
    assert seen((10, 30, None)).lag([state(30)], now=11) == Lag(unknown=1)


def test_the_lag_is_what_lies_behind_the_position_as_of_the_last_answer() -> None:
    lag = seen((10, 30, 50)).lag([state(30)], now=12)
    assert lag == Lag(offsets=20, partitions=1, behind_seconds=2, age_seconds=3)


def test_what_waits_is_as_old_as_the_first_end_beyond_the_position() -> None:
    ends = seen((10, 30, 40), (11, 35, 60), (12, 39, 60))
    assert ends.lag([state(39)], now=12).behind_seconds == 2
    ends.note([result(40, 60)], asked_at=12, now=13)
    assert ends.lag([state(40)], now=13).behind_seconds == 2, "the first end was passed, the second was not"


def test_all_copied_is_zero_only_as_of_the_last_answer() -> None:
    ends = seen((10, 50, 50), (20, 50, None))
    assert ends.lag([state(50)], now=20) == Lag(offsets=0, partitions=1, age_seconds=11)


def test_many_ends_are_thinned_and_the_first_is_kept() -> None:
    ends = seen(*((float(now), 0, now) for now in range(1, 1_000)))
    assert ends.lag([state(0)], now=1_000).behind_seconds == 999


def test_a_run_with_an_end_knows_what_is_left() -> None:
    assert SourceEnds().lag([state(30, end_offset=90)], now=1) == Lag(offsets=60, partitions=1)
    assert SourceEnds().lag([state(90, end_offset=90)], now=1) == Lag(offsets=0, partitions=1)


def test_the_oldest_answer_is_the_age_of_the_sum() -> None:
    ends = seen((10, 30, 50))
    other = replace(SOURCE, topic_id="another")
    newer = replace(result(1, 2), assignment=replace(assignment(), source=other))
    ends.note([newer], asked_at=19, now=20)
    lag = ends.lag([state(30), state(1, topic_id="another"), state(0, topic_id="unheard")], now=20)
    assert (lag.offsets, lag.partitions, lag.age_seconds, lag.unknown) == (21, 2, 11, 1)


def test_what_stands_still_is_counted_and_in_no_lag() -> None:
    stopped, paused, blocked = state(0), state(0), state(0)
    stopped.stop = Stop(StopCause.DENIED, "denied")
    paused.pair = PartitionPair(replace(SOURCE, topic="paused"), TARGET)
    blocked.pair = PartitionPair(replace(SOURCE, topic="blocked"), TARGET)
    progress = progress_of(
        RunSummary(),
        [stopped, paused, blocked, state(30)],
        seen((10, 30, 50)),
        is_paused=lambda topic: topic == "paused",
        blocked={"blocked"},
        now=10,
        stale_after_s=3,
    )
    assert (progress.stopped, progress.paused) == (2, 1)
    assert (progress.lag.offsets, progress.lag.partitions, progress.lag.unknown) == (20, 1, 0)
    assert progress.is_lag_known
    assert not replace(progress, stale_after_s=0.5).is_lag_known
    assert not replace(progress, lag=Lag(unknown=1)).is_lag_known
