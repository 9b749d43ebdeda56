"""Lines on stderr as JSON: each line is one event, whoever writes it and whatever names it has."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger.cli.logs import FORMAT_VARIABLE, LEVEL_VARIABLE
from tests.support.config_files import BASE, FLOW_TEXT

_EVENT = {"time", "level", "logger", "message"}
_LOGS = """
import logging, sys
from ledger.cli.logs import log_to_stderr
from ledger.cli.printing import say, say_error
from ledger.errors import UnsafeError
log_to_stderr()
log = logging.getLogger("ledger.some.place")
log.debug("%(flow)s: seldom", {"flow": "f"})
log.warning("%(flow)s: %(topic)s partition %(partition)d: %(cause)s", {"flow": "f", "topic": "\\x1b[2J\\n100%",
    "partition": 3, "cause": ValueError("why"), "message": "not this"})
log.info("a plain %s", "line")
say("warning: clusters.east: no effect", "done 100%", flow="f")
say_error(UnsafeError("one line", "another"))
try:
    raise KeyError("inside")
except KeyError:
    log.exception("%(table)s failed", {"table": "writers"})
raise RuntimeError("nobody foresaw it")
"""


def ended(*words: str, code: int, **environment: str) -> list[str]:
    """The lines on stderr of a Python process that ends with the code."""
    variables = {
        name: value for name, value in os.environ.items() if name not in (FORMAT_VARIABLE, LEVEL_VARIABLE)
    }
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env={**variables, **environment},
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stderr.splitlines()


def test_each_line_is_an_event_with_what_it_is_about() -> None:
    lines = ended("-c", _LOGS, code=1, **{FORMAT_VARIABLE: "json"})
    events: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert all(event.keys() >= _EVENT and event["time"].endswith("Z") for event in events)
    warning, plain, no_effect, done, error, more, caught, uncaught = events
    assert (warning["level"], warning["logger"]) == ("warning", "ledger.some.place")
    assert warning["message"] == "f: \x1b[2J\n100% partition 3: why"
    about = {name: warning[name] for name in warning.keys() - _EVENT}
    assert about == {"flow": "f", "topic": "\x1b[2J\n100%", "partition": 3, "cause": "why"}
    assert (plain["message"], set(plain)) == ("a plain line", _EVENT)
    assert (no_effect["level"], no_effect["message"], no_effect["flow"]) == (
        "warning",
        "clusters.east: no effect",
        "f",
    )
    assert (done["level"], done["message"]) == ("info", "done 100%")
    assert [(one["level"], one["message"]) for one in (error, more)] == [
        ("error", "one line"),
        ("info", "another"),
    ]
    assert (caught["level"], caught["table"]) == ("error", "writers")
    assert caught["traceback"].endswith("KeyError: 'inside'")
    assert uncaught["level"] == "critical"
    assert uncaught["traceback"].endswith("RuntimeError: nobody foresaw it")
    assert not any(line.isascii() is False or "\x1b" in line for line in lines)


_OF_FLOWS = """
import logging, threading
from ledger.cli.logs import log_to_stderr
from ledger.mirror.together import run_together
from ledger.threads import beside
log_to_stderr()
log = logging.getLogger("ledger.some.place")
def run(flow, is_again):
    thread = beside(log.warning, "of a %s", "thread", name="beside")
    thread.start()
    thread.join()
    log.warning("%(flow)s: named", {"flow": flow})
log.warning("before")
run_together(["a"], run, stop=threading.Event(), are_tried_again=False, on_end=lambda end: None)
"""


def test_of_a_process_with_several_flows_each_line_names_its_own() -> None:
    assert ended("-c", _OF_FLOWS, code=0) == ["WARNING before", "WARNING a: of a thread", "WARNING a: named"]
    lines = ended("-c", _OF_FLOWS, code=0, **{FORMAT_VARIABLE: "json"})
    events = [(event.get("flow"), event["message"]) for event in map(json.loads, lines)]
    assert events == [(None, "before"), ("a", "of a thread"), ("a", "a: named")]


_AGAIN = """
import logging
from ledger.cli.logs import log_to_stderr
log_to_stderr()
log = logging.getLogger("ledger.some.place")
for at_s in (0, 5, 10, 300, 305, 599, 600, 1000):
    for level, words in ((logging.WARNING, "away"), (logging.INFO, "here")):
        given = (log.name, level, "file", 1, "%(flow)s: %(what)s, 100%%", ({"flow": "f", "what": words},), None)
        record = log.makeRecord(*given)
        record.created = 1_000_000_000.0 + at_s
        if words == "away" or at_s == 5:
            log.handle(record)
"""


def test_a_warning_that_comes_again_is_said_each_five_minutes_with_its_beginning() -> None:
    said, since = "WARNING f: away, 100%", "2001-09-09 01:46:40Z"
    still = f"{said}; still, since {since}"
    assert ended("-c", _AGAIN, code=0) == [said, "INFO f: here, 100%", still, still, said]
    events = [json.loads(line) for line in ended("-c", _AGAIN, code=0, **{FORMAT_VARIABLE: "json"})]
    assert [event.get("since") for event in events] == [None, None, since, since, None]
    assert {event["flow"] for event in events} == {"f"}


_CHILD = """
import os, subprocess, sys
from ledger.cli.logs import events_of_children, log_to_stderr
log_to_stderr()
words = ["printf 'a 100%% word\\n{\\"level\\": \\"error\\"}\\n\\377\\n' >&2"]
with events_of_children():
    child = subprocess.Popen(["sh", "-c", *words])
print("own words", file=sys.stderr)
child.wait()
import time; time.sleep(0.3)
"""


def test_what_children_write_is_an_event_and_events_stay_as_they_are() -> None:
    lines = ended("-c", _CHILD, code=0, **{FORMAT_VARIABLE: "json"})
    assert sorted(lines)[0] == "own words"
    events = [json.loads(line) for line in lines if line != "own words"]
    assert [event.get("message") for event in events] == ["a 100% word", None, "ÿ"]
    assert [event["level"] for event in events] == ["warning", "error", "warning"]


@pytest.mark.parametrize(("level", "written"), [("debug", 9), ("info", 8), ("warning", 7), ("error", 6)])
def test_events_are_written_from_a_level_on(level: str, written: int) -> None:
    """What a command says to whoever typed it is written at any level."""
    assert len(ended("-c", _LOGS, code=1, **{FORMAT_VARIABLE: "json", LEVEL_VARIABLE: level})) == written


@pytest.mark.parametrize("variable", [FORMAT_VARIABLE, LEVEL_VARIABLE])
def test_a_wrong_word_in_the_environment_is_refused(variable: str) -> None:
    [line] = ended("-m", "ledger.cli.main", "query", "--list", code=2, **{variable: "xml"})
    assert variable in line
    assert "nothing was done" in line


def test_options_go_before_the_environment_and_the_environment_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mirror.toml"
    file.write_text(BASE + FLOW_TEXT + '\n[logs]\nformat = "json"\n')
    command = ("-m", "ledger.cli.main", "--config", str(file))
    [by_file] = ended(*command, "run", "nobody", code=2)
    assert json.loads(by_file)["level"] == "error"
    [by_environment] = ended(*command, "run", "nobody", code=2, **{FORMAT_VARIABLE: "text"})
    assert by_environment.startswith("error: ")
    [by_option] = ended(
        *command[:2],
        "--log-format",
        "json",
        *command[2:],
        "run",
        "nobody",
        code=2,
        **{FORMAT_VARIABLE: "text"},
    )
    assert "nobody" in json.loads(by_option)["message"]


def test_a_wrong_table_of_logs_is_a_problem_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mirror.toml"
    file.write_text(BASE + FLOW_TEXT + '\n[logs]\nformat = "xml"\ncolour = "red"\n')
    lines = ended("-m", "ledger.cli.main", "--config", str(file), "status", code=2)
    assert [line.split(": ")[1 if line.startswith("error") else 0] for line in lines] != []
    assert any("logs.format" in line for line in lines)
    assert any("logs.colour: unknown key" in line for line in lines)
