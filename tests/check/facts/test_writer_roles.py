"""When a writer's role is free, and when a standby takes a flow over: rules as tables."""

from dataclasses import replace
from pathlib import Path

import pytest

from ledger import machine
from ledger.errors import InvalidValueError
from ledger.facts.roles import (
    FlowSight,
    LastClaim,
    ProcessMark,
    RoleVerdict,
    Silence,
    StandbyVerdict,
    role_verdict,
    standby_verdict,
    verdict_here,
)
from ledger.machine import LocalProcesses
from tests.support.fakes import FakeProcesses

# -- A writer's role -------------------------------------------------------------------------------

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
    """Also where no process can be asked for: of the past."""

    class Unseen(FakeProcesses):
        def is_alive(self, mark: ProcessMark) -> bool:
            raise AssertionError(f"{mark} was asked for")

    verdict = verdict_here(None, Unseen(), now_ms=0, heartbeat_ms=HEARTBEAT_MS)
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


def container(folder: Path, *, namespace: int, pid: int, started: int, boot: str = "boot-1") -> Path:
    """The /proc that a process of a container sees, in which it has this id, with one other process, 9."""
    for process, ticks in ((pid, started), (9, 30)):
        (folder / str(process)).mkdir(parents=True)
        (folder / str(process) / "stat").write_text(f"{process} (python (x)) S {'0 ' * 18}{ticks} 0")
    (folder / "self").symlink_to(str(pid))
    (folder / "self" / "ns").mkdir()
    (folder / "self" / "ns" / "pid").symlink_to(f"pid:[{namespace}]")
    (folder / "sys/kernel/random").mkdir(parents=True)
    (folder / "sys/kernel/random/boot_id").write_text(f"{boot}\n")
    return folder


def own_in(proc: Path, monkeypatch: pytest.MonkeyPatch) -> ProcessMark:
    monkeypatch.setattr(machine, "_PROC", proc)
    monkeypatch.setattr("socket.gethostname", lambda: "mirror")
    return LocalProcesses().own()


def test_the_first_processes_of_two_containers_with_one_host_name_do_not_see_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is process 1 of `mirror`, started in the same tick; so is that of a node that booted anew."""
    here = own_in(container(tmp_path / "a", namespace=11, pid=1, started=70), monkeypatch)
    beside = own_in(container(tmp_path / "b", namespace=12, pid=1, started=70), monkeypatch)
    rebooted = own_in(container(tmp_path / "c", namespace=11, pid=1, started=70, boot="boot-2"), monkeypatch)
    assert {(one.host, one.pid, one.start_ticks) for one in (here, beside, rebooted)} == {("mirror", 1, 70)}
    assert len({here, beside, rebooted}) == len({one.place for one in (here, beside, rebooted)}) == 3
    claim = LastClaim(1, str(here), released=False, last_recorded_at_ms=0, claimed_at_ms=0)
    for own in (beside, rebooted):
        for silent_ms, expected in ((2_999, RoleVerdict.IN_USE), (3_000, RoleVerdict.HOLDER_SILENT)):
            processes = FakeProcesses(own)
            found = verdict_here(claim, processes, now_ms=silent_ms, heartbeat_ms=HEARTBEAT_MS)
            assert found is expected, "it was taken for dead"


def test_the_next_first_process_of_a_container_knows_that_the_one_before_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = own_in(container(tmp_path / "a", namespace=11, pid=1, started=70), monkeypatch)
    own_in(container(tmp_path / "b", namespace=11, pid=1, started=90), monkeypatch)
    claim = LastClaim(1, str(before), released=False, last_recorded_at_ms=0, claimed_at_ms=0)
    found = verdict_here(claim, LocalProcesses(), now_ms=0, heartbeat_ms=HEARTBEAT_MS)
    assert found is RoleVerdict.HOLDER_DEAD


def test_a_process_is_named_as_the_proc_that_is_mounted_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container that sees the /proc of its node finds other processes there under the ids that it has itself."""
    proc = container(tmp_path / "a", namespace=11, pid=4242, started=70)
    own = own_in(proc, monkeypatch)
    assert (own.pid, own.start_ticks) == (4242, 70)
    assert LocalProcesses().is_alive(own), "its process 1 is another one, or none, there"


def test_a_mark_of_a_former_program_is_judged_by_its_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had no place: the same host name may be another container."""
    own_in(container(tmp_path / "a", namespace=11, pid=1, started=70), monkeypatch)
    for host in ("mirror:1:70:", "mirror:1:70"):
        claim = LastClaim(1, host, released=False, last_recorded_at_ms=0, claimed_at_ms=0)
        for silent_ms, expected in ((2_999, RoleVerdict.IN_USE), (3_000, RoleVerdict.HOLDER_SILENT)):
            found = verdict_here(claim, LocalProcesses(), now_ms=silent_ms, heartbeat_ms=HEARTBEAT_MS)
            assert found is expected


# -- A standby -------------------------------------------------------------------------------------

REBOOTED = "host-a:11:5:boot-2"
BEGAN = 5
"""Place of the driver's start among operations."""
CLAIM = LastClaim(1, HERE, False, 10_000, 5_000)


def verdict(seen: FlowSight, *, alive: bool = False, silent_s: float = 0.0) -> StandbyVerdict:
    return standby_verdict(
        seen, own=OWN, holder_alive=alive, silent_seconds=silent_s, heartbeat_ms=HEARTBEAT_MS
    )


@pytest.mark.parametrize(
    ("host", "released", "alive", "silent_s", "expected"),
    [
        (HERE, True, True, 0.0, StandbyVerdict.ENDED),
        (HERE, False, True, 0.0, StandbyVerdict.AT_WORK),
        (HERE, False, True, 3_600.0, StandbyVerdict.AT_WORK),
        (HERE, False, False, 0.0, StandbyVerdict.DEAD),
        (ELSEWHERE, True, False, 0.0, StandbyVerdict.ENDED),
        (ELSEWHERE, False, False, 2.999, StandbyVerdict.AT_WORK),
        (ELSEWHERE, False, False, 3.0, StandbyVerdict.SILENT),
        (REBOOTED, False, False, 2.999, StandbyVerdict.AT_WORK),
        (REBOOTED, False, False, 3.0, StandbyVerdict.SILENT),
    ],
)
def test_who_ended_is_followed_unless_that_was_asked_for(
    host: str, released: bool, alive: bool, silent_s: float, expected: StandbyVerdict
) -> None:
    claim = replace(CLAIM, host=host, released=released)
    ended = expected is not StandbyVerdict.AT_WORK
    assert verdict(FlowSight(claim, BEGAN), alive=alive, silent_s=silent_s) is expected
    assert expected.takes_over is ended
    for last_stop, stopped in ((BEGAN - 1, False), (BEGAN + 1, True)):
        found = verdict(FlowSight(claim, BEGAN, last_stop), alive=alive, silent_s=silent_s)
        assert found is (StandbyVerdict.STOPPED if stopped and ended else expected)
    no_driver = verdict(FlowSight(claim, None, BEGAN + 1), alive=alive, silent_s=silent_s)
    assert no_driver is (StandbyVerdict.NO_DRIVER if ended else expected)


def test_what_waits() -> None:
    assert verdict(FlowSight(None)) is StandbyVerdict.NEVER_RAN
    assert {one for one in StandbyVerdict if not one.takes_over} == {
        StandbyVerdict.NEVER_RAN,
        StandbyVerdict.AT_WORK,
        StandbyVerdict.NO_DRIVER,
        StandbyVerdict.STOPPED,
    }


def test_silence_is_counted_from_the_first_sight_of_the_last_append_whatever_time_that_states() -> None:
    silence, claim = Silence(), replace(CLAIM, last_recorded_at_ms=9_999_999_999_999)
    assert [silence.seconds(claim, now=now) for now in (50.0, 52.0)] == [0.0, 2.0]
    earlier = replace(claim, last_recorded_at_ms=1)
    assert [silence.seconds(earlier, now=now) for now in (53.0, 54.0)] == [0.0, 1.0]
    later_epoch = replace(earlier, epoch=2)
    assert [silence.seconds(later_epoch, now=now) for now in (55.0, 58.0)] == [0.0, 3.0]
    assert silence.seconds(None, now=60.0) == 0.0


def test_silence_begins_anew_after_a_time_in_which_nobody_could_look() -> None:
    silence = Silence()
    silence.seconds(CLAIM, now=50.0)
    silence.forget()
    assert [silence.seconds(CLAIM, now=now) for now in (90.0, 91.0)] == [0.0, 1.0]
