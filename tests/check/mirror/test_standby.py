"""A standby's watch, and when a driver may start on a flow that another one has claimed."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from ledger.config.values import FlowConfig
from ledger.errors import LedgerUnavailableError, PreconditionError
from ledger.facts.requests import FlowRequests
from ledger.facts.roles import LastClaim, ProcessMark, StandbyVerdict
from ledger.facts.state import LedgerState
from ledger.mirror.standby import Standby, Succession
from ledger.roles import require_free
from tests.support.fakes import FakeClock, FakeProcesses

# -- The watch -------------------------------------------------------------------------------------

FLOW = FlowConfig(name="f", source="a", target="b", topics=("t",), heartbeat_seconds=10, round_seconds=1)
HERE, ELSEWHERE = ProcessMark("host-a", 11, 5), ProcessMark("host-b", 11, 5)
CLAIM = LastClaim(7, str(HERE), False, 10_000, 5_000)


@dataclass
class FakeState:
    """What a standby reads of a `LedgerState`."""

    claim: LastClaim | None = CLAIM
    began_at: int | None = 5
    last_stop: int = 0
    error: LedgerUnavailableError | None = None
    reads: int = 0

    def last_claim(self, writer: str) -> LastClaim | None:
        assert writer == "flow:f"
        self.reads += 1
        if self.error is not None:
            raise self.error
        return self.claim

    def requests(self, flow: str) -> FlowRequests:
        assert flow == FLOW.name
        return FlowRequests(last_stop=self.last_stop)

    def driver_began_at(self, flow: str, host: str) -> int | None:
        assert self.claim is not None
        assert (flow, host) == (FLOW.name, self.claim.host)
        return self.began_at


@dataclass
class Watched:
    """A standby in a world in which something happens at given seconds, and which ends it at second 100."""

    state: FakeState = field(default_factory=FakeState)
    processes: FakeProcesses = field(default_factory=lambda: FakeProcesses(alive={HERE}))
    clock: FakeClock = field(default_factory=lambda: FakeClock(0.0))
    events: dict[float, Callable[[], object]] = field(default_factory=dict)
    warmed: list[float] = field(default_factory=list)

    def is_set(self) -> bool:
        return self.clock.now_s >= 100

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        before, self.clock.now_s = self.clock.now_s, self.clock.now_s + timeout
        for at, happens in self.events.items():
            if before < at <= self.clock.now_s:
                happens()
        return self.is_set()

    def succession(self) -> Succession | None:
        standby = Standby(
            FLOW,
            cast(LedgerState, self.state),
            self.processes,
            self.clock,
            lambda: self.warmed.append(self.clock.now_s),
        )
        return standby.wait(self)

    def dies(self) -> None:
        self.processes.alive.clear()


def test_a_process_that_dies_here_is_noticed_at_the_next_tick_and_the_ledger_is_not_read_at_every_one() -> (
    None
):
    watched = Watched()
    watched.events[42.25] = watched.dies
    assert watched.succession() == Succession(CLAIM, StandbyVerdict.DEAD, 42.0)
    assert watched.clock.now_s == 42.5
    assert watched.state.reads < 15


def test_elsewhere_three_heartbeats_without_an_append_are_waited_for() -> None:
    elsewhere = replace(CLAIM, host=str(ELSEWHERE))
    watched = Watched(FakeState(elsewhere))
    appended = replace(elsewhere, last_recorded_at_ms=1)
    watched.events[20.25] = lambda: setattr(watched.state, "claim", appended)
    found = watched.succession()
    assert found == Succession(appended, StandbyVerdict.SILENT, 25.0), "the ledger is read every five seconds"
    assert 55.0 <= watched.clock.now_s <= 55.5


def test_a_ledger_that_cannot_be_read_is_waited_for_and_no_silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watched = Watched(FakeState(replace(CLAIM, host=str(ELSEWHERE))))
    watched.events[20.0] = lambda: setattr(watched.state, "error", LedgerUnavailableError("no answer"))
    watched.events[40.0] = lambda: setattr(watched.state, "error", None)
    found = watched.succession()
    assert found is not None
    assert watched.clock.now_s >= 70.0
    assert caplog.text.count("cannot read the ledger: no answer") == 1


def test_what_an_operator_stopped_is_left_alone_until_a_driver_was_started_and_died(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    watched = Watched(FakeState(last_stop=9))
    again = replace(CLAIM, epoch=8, host=str(replace(HERE, pid=12)))

    def started_again() -> None:
        watched.processes.alive.add(ProcessMark.parse(again.host))
        watched.state.claim, watched.state.began_at = again, 10

    watched.events |= {10.0: watched.dies, 50.0: started_again, 60.0: watched.dies}
    assert watched.succession() == Succession(again, StandbyVerdict.DEAD, 59.5)
    assert [line for line in caplog.messages if "stopped" in line] == [
        "f: waits as standby: an operator stopped the flow; it is started again by `mirror-ledger run f`"
    ]


def test_one_that_gave_the_role_back_unasked_is_followed() -> None:
    watched = Watched()
    released = replace(CLAIM, released=True)
    watched.events[20.25] = lambda: setattr(watched.state, "claim", released)
    assert watched.succession() == Succession(released, StandbyVerdict.ENDED, 25.0)


def test_one_that_had_died_before_the_first_look_is_followed_at_once() -> None:
    watched = Watched(processes=FakeProcesses())
    found = watched.succession()
    assert found == Succession(CLAIM, StandbyVerdict.DEAD, None)
    assert found.description("f", now=3.0) == (
        "f: taken over from epoch 7, process 11 on host host-a, which had ended before (dead)"
    )


def test_it_ends_when_asked_to_and_was_kept_warm() -> None:
    watched = Watched()
    assert watched.succession() is None
    assert watched.warmed == [0.0, 30.0, 60.0, 90.0]


# -- The rule --------------------------------------------------------------------------------------

QUICK_FLOW = FlowConfig(name="f", source="a", target="b", topics=("t",), heartbeat_seconds=1, round_seconds=1)


def start(mark: ProcessMark, *, released: bool, alive: bool, silent_ms: int) -> None:
    claim = LastClaim(7, str(mark), released, 10_000, 5_000)
    processes = FakeProcesses(alive={mark} if alive else set())
    require_free(QUICK_FLOW, claim, processes, now_ms=10_000 + silent_ms)


@pytest.mark.parametrize(
    ("mark", "released", "alive", "silent_ms"),
    [
        (HERE, True, True, 0),
        (HERE, False, False, 0),
        (HERE, False, False, 9_000),
        (ELSEWHERE, True, False, 0),
        (ELSEWHERE, False, False, 3_000),
    ],
)
def test_free(mark: ProcessMark, released: bool, alive: bool, silent_ms: int) -> None:
    start(mark, released=released, alive=alive, silent_ms=silent_ms)


@pytest.mark.parametrize(
    ("mark", "alive", "silent_ms"),
    [(HERE, True, 0), (HERE, True, 3_600_000), (ELSEWHERE, False, 0), (ELSEWHERE, False, 2_999)],
)
def test_in_use(mark: ProcessMark, alive: bool, silent_ms: int) -> None:
    with pytest.raises(PreconditionError, match=r"epoch 7 by process 11 on host host-.*--take-over") as told:
        start(mark, released=False, alive=alive, silent_ms=silent_ms)
    assert mark.host in str(told.value)
    assert "nothing was copied" in str(told.value)


def test_a_flow_that_never_ran_is_free() -> None:
    require_free(QUICK_FLOW, None, FakeProcesses(), now_ms=0)
