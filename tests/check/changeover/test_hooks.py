"""Hooks as processes: what they print, how they end, and that none is left; and as steps of a plan."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ledger import machine
from ledger.changeover.plans import ApplyState, Choices, StepName
from ledger.config.file import load_config
from ledger.errors import PreconditionError, ShutOutError, UsageError
from ledger.machine import HookCommand, HookProcesses, HookResult, words_of
from tests.support.changeovers import Stage, plan, with_hooks

# -- Processes -------------------------------------------------------------------------------------


def _nobody(_words: str) -> None:
    """Waits, and wants to know nothing."""


def python(code: str, *arguments: str, seconds: float = 30.0, **environment: str) -> HookResult:
    command = (sys.executable, "-S", "-c", code, *arguments)
    return HookProcesses().run(HookCommand(command, seconds, environment), _nobody)


def test_output_exit_code_arguments_and_environment() -> None:
    code = "import os, sys; print(os.environ['ABOUT'], sys.argv[1]); sys.stderr.write('why'); sys.exit(3)"
    done = python(code, "$HOME; a b", ABOUT="orders")
    assert (done.exit_code, done.is_done) == (3, False)
    assert sorted(done.output.split("\n")) in (["orders $HOME; a b", "why"], ["", "whyorders $HOME; a b"])
    assert python("pass") == HookResult(0, "")


def test_long_output_keeps_its_beginning_and_its_end() -> None:
    done = python("print('begin' + 'x' * 10_000 + 'end')")
    assert done.output.startswith("beginx")
    assert done.output.endswith("xend\n")
    assert "\n[6009 bytes left out]\n" in done.output
    assert len(done.output) < 4_100


def test_secrets_of_the_configuration_are_in_nothing_that_is_kept_of_what_it_printed() -> None:
    password, key = "hunter2's p%ss/w", "BEGIN\nlong line of a key\nEND"
    code = """
import base64, json, os, urllib.parse
for one in (os.environ["PASSWORD"], os.environ["KEY"]):
    print(one, json.dumps(one), urllib.parse.quote(one, safe=""), one.replace("'", "'\\\\''"))
    print(base64.b64encode(one.encode()).decode(), "done")
"""
    command = HookCommand((sys.executable, "-S", "-c", code), 30.0, {"PASSWORD": password, "KEY": key})
    output = HookProcesses([password, key]).run(command, _nobody).output
    for told in ("hunter", "p%ss", "p%25ss", "line of a key", "aHVudGVy", "bG9uZyBsaW5l"):
        assert told not in output, output
    assert output.count("[secret] done\n") == 2


SECRETS = (
    '[ledger]\npath = "ledger"\n[ledger.store]\naws_access_key_id = "AKIA"\n',
    'aws_secret_access_key = {env = "MY_STORE"}\n[serve]\ntoken = {env = "MY_SERVE"}\n',
    '[metrics]\ntoken = {env = "MY_METRICS"}\n[evidence]\nkey = {env = "MY_KEY"}\n',
    '[clusters.east]\nbootstrap_servers = "e:1"\nsasl.password = {env = "MY_EAST"}\n',
    '[clusters.east.admin]\nsasl.password = {env = "MY_ADMIN"}\n[clusters.west]\nbootstrap_servers = "w:1"\n',
    '[flows.f]\nsource = "east"\ntarget = "west"\ntopics = [".*"]\n',
)


def test_each_secret_that_the_file_refers_to_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("STORE", "SERVE", "METRICS", "KEY", "EAST", "ADMIN")
    for name in names:
        monkeypatch.setenv(f"MY_{name}", f"hush{name.lower()}99")
    (tmp_path / "ledger.toml").write_text("".join(SECRETS))
    config = load_config(tmp_path / "ledger.toml")
    environment = config.ledger.store_environment(os.environ)
    code = "import os; print(*sorted(f'{k}={v}' for k, v in os.environ.items() if k[:3] in ('AWS', 'MY_')))"
    command = HookCommand((sys.executable, "-S", "-c", code), 30.0, environment)
    output = HookProcesses(config.secrets(os.environ)).run(command, _nobody).output
    assert "AWS_SECRET_ACCESS_KEY=[secret]" in output
    assert "AWS_ACCESS_KEY_ID=AKIA" in output, "it is no secret"
    assert "hush" not in output
    assert output.count("[secret]") == len(names) + 1


@pytest.mark.parametrize("before", [1_993, 1_997, 2_000])
def test_a_secret_across_what_is_left_out_is_hidden_on_both_sides(before: int) -> None:
    code = f"print('x' * {before} + 'hunter2' + 'y' * 4_000 + 'hunter2' + 'z' * {before}, end='')"
    command = HookCommand((sys.executable, "-S", "-c", code), 30.0)
    output = HookProcesses(["hunter2"]).run(command, _nobody).output
    assert not set("hunter2") & set(output.replace("[secret]", "").partition("\n")[0])
    assert not set("hunter2") & set(output.replace("[secret]", "").rpartition("\n")[2])


def test_one_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "alive"
    child = f"import time, pathlib; time.sleep(1.5); pathlib.Path({str(mark)!r}).touch()"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-S', '-c', {child!r}]); time.sleep(60)"
    began_s = time.monotonic()
    done = python(code, seconds=0.5)
    assert (done.exit_code, done.is_done) == (None, False)
    assert time.monotonic() - began_s < 20
    time.sleep(1.5)
    assert not mark.exists()


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="the hook no-such-program could not be run: No such file"):
        HookProcesses().run(HookCommand(("no-such-program", "--secret"), 5.0), _nobody)


def test_who_waits_is_told_and_ends_the_hook_by_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_REPORTED_EVERY_S", 0.2)
    mark = tmp_path / "alive"
    code = f"import time, pathlib; time.sleep(1); pathlib.Path({str(mark)!r}).touch()"
    told: list[str] = []

    def waits(words: str) -> None:
        told.append(words)
        if len(told) == 2:
            raise ShutOutError("another process carries it out")

    with pytest.raises(ShutOutError):
        HookProcesses().run(HookCommand((sys.executable, "-S", "-c", code), 600.0), waits)
    assert told[0] == f"the hook {sys.executable} runs since 0 s, and is ended after 600"
    time.sleep(1)
    assert not mark.exists()


@pytest.mark.parametrize(("command", "why"), [("stop 'it", "is no command: No closing"), ("  ", "is empty")])
def test_what_is_no_command_is_refused_before_anything_runs(command: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        words_of(command)
    assert words_of("/opt/shop stop 'all of it'") == ("/opt/shop", "stop", "all of it")


# -- Steps -----------------------------------------------------------------------------------------

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
