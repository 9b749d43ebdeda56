"""The rule for when a writer's role is free, as a table."""

import pytest

from ledger.errors import InvalidValueError
from ledger.facts.roles import LastClaim, ProcessMark, RoleVerdict, role_verdict, verdict_here
from ledger.machine import LocalProcesses
from tests.support.fakes import FakeProcesses

HERE, ELSEWHERE = "host-a:11:5:boot-1", "host-b:11:5:boot-1"
MOVED = "host-a:11:5:boot-2"
"""A pod that was scheduled anew keeps its host name."""
OWN = ProcessMark("host-a", 12, 6, "boot-1")
HEARTBEAT_MS = 1_000


@pytest.mark.parametrize(
    ("host", "released", "alive", "silent_ms", "verdict"),
    [
        (HERE, True, True, 0, RoleVerdict.RELEASED),
        (HERE, True, False, 9_000, RoleVerdict.RELEASED),
        (HERE, False, False, 0, RoleVerdict.HOLDER_DEAD),
        (HERE, False, False, 9_000, RoleVerdict.HOLDER_DEAD),
        (HERE, False, True, 2_999, RoleVerdict.IN_USE),
        (HERE, False, True, 3_000, RoleVerdict.HOLDER_SILENT),
        (ELSEWHERE, False, False, 0, RoleVerdict.IN_USE),
        (ELSEWHERE, False, False, 2_999, RoleVerdict.IN_USE),
        (ELSEWHERE, False, False, 3_000, RoleVerdict.HOLDER_SILENT),
        (MOVED, False, False, 0, RoleVerdict.IN_USE),
        (MOVED, False, False, 3_000, RoleVerdict.HOLDER_SILENT),
    ],
)
def test_verdicts(host: str, released: bool, alive: bool, silent_ms: int, verdict: RoleVerdict) -> None:
    claim = LastClaim(1, host, released, 10_000, 5_000)
    found = role_verdict(
        claim, own=OWN, holder_alive=alive, now_ms=10_000 + silent_ms, heartbeat_ms=HEARTBEAT_MS
    )
    assert found is verdict
    assert found.is_free is (verdict is not RoleVerdict.IN_USE)


def test_a_role_that_nobody_had_is_unclaimed() -> None:
    verdict = verdict_here(None, FakeProcesses(), now_ms=0, heartbeat_ms=HEARTBEAT_MS)
    assert verdict is RoleVerdict.UNCLAIMED


@pytest.mark.parametrize(
    ("alive", "verdict"),
    [({ProcessMark("host-a", 11, 5)}, RoleVerdict.IN_USE), (set(), RoleVerdict.HOLDER_DEAD)],
)
def test_the_holder_is_looked_up_on_this_host(alive: set[ProcessMark], verdict: RoleVerdict) -> None:
    processes = FakeProcesses(alive=alive)
    claim = LastClaim(1, "host-a:11:5:", False, 0, 0)
    assert verdict_here(claim, processes, now_ms=0, heartbeat_ms=HEARTBEAT_MS) is verdict


def test_marks_go_there_and_back() -> None:
    assert ProcessMark.parse("host-a:11:5:boot") == ProcessMark("host-a", 11, 5, "boot")
    assert str(ProcessMark.parse(HERE)) == HERE


@pytest.mark.parametrize("text", ["", "host", "host:1", "host:x:1", ":1:1"])
def test_text_that_is_no_mark(text: str) -> None:
    with pytest.raises(InvalidValueError):
        ProcessMark.parse(text)


def test_this_process_is_alive_and_an_earlier_one_of_its_id_is_not() -> None:
    processes = LocalProcesses()
    own = processes.own()
    assert processes.is_alive(own)
    assert not processes.is_alive(ProcessMark(own.host, own.pid, own.start_ticks - 1))
    assert not processes.is_alive(ProcessMark(own.host, 2**22 + 1, 1))
