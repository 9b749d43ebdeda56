"""Hooks of a plan's steps, as real processes: their output is in the receipts, and none outlives its time."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ledger.changeover.plans import ApplyState, Choices, StepName
from ledger.errors import PreconditionError
from ledger.machine import HookProcesses
from tests.support.changeovers import Stage, plan, with_hooks

_CHILD_TOUCHES_AFTER_S = 1.5


def stage_with(code: str, folder: Path, *, hook_seconds: float = 600.0) -> Stage:
    """A plan whose producers are stopped by a program."""
    script = folder / "stop them.py"
    script.write_text(code)
    made = plan(choices=replace(Choices(), hook_seconds=hook_seconds))
    command = f"{sys.executable} -S '{script}' orders"
    return Stage(with_hooks(made, stop_producers=command), hooks=HookProcesses())


def test_what_it_printed_is_in_the_receipt_with_what_it_was_told(tmp_path: Path) -> None:
    code = """
import os, sys
told = [os.environ["MIRROR_LEDGER_" + name] for name in ("OPERATION", "STEP", "FROM", "TO")]
print("stopped", *sys.argv[1:], *told)
"""
    stage = stage_with(code, tmp_path)
    stage.apply()
    assert stage.last.done[StepName.STOP_PRODUCERS].hook == {
        "command": stage.plan.hooks[StepName.STOP_PRODUCERS],
        "exit_code": 0,
        "output": "stopped orders operation-1 stop_producers east west\n",
    }


def test_one_that_takes_longer_than_the_plan_lets_it_is_ended_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "a child was alive"
    child = (
        "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"time.sleep({_CHILD_TOUCHES_AFTER_S}); pathlib.Path({str(mark)!r}).touch()"
    )
    code = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-S", "-c", {child!r}])
print("two of three producers are stopped", flush=True)
time.sleep(60)
"""
    stage = stage_with(code, tmp_path, hook_seconds=0.7)
    began_s = time.monotonic()
    with pytest.raises(PreconditionError, match=r"took longer than 0\.7 s"):
        stage.apply()
    assert time.monotonic() - began_s < 20
    assert stage.last.state is ApplyState.OPEN
    assert stage.last.failed[StepName.STOP_PRODUCERS].words == (
        "the hook of stop_producers took longer than 0.7 s, and was ended with what it had started: "
        "two of three producers are stopped"
    )
    assert StepName.FENCE not in stage.last.begun
    time.sleep(_CHILD_TOUCHES_AFTER_S)
    assert not mark.exists()


def test_one_that_fails_can_be_run_again(tmp_path: Path) -> None:
    mark = tmp_path / "repaired"
    code = f"""
import pathlib, sys
sys.exit(None if pathlib.Path({str(mark)!r}).exists() else "no such producer")
"""
    stage = stage_with(code, tmp_path)
    with pytest.raises(PreconditionError, match="the hook of stop_producers ended with 1: no such producer"):
        stage.apply()
    mark.touch()
    stage.apply()
    assert stage.last.state is ApplyState.DONE
    assert stage.last.failed == {}
