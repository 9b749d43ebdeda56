"""Names and reasons that others gave: no answer, message or log line lets a terminal, a shell or SQL obey them."""

import ast
import csv
import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.changeover.applying import apply_plan
from ledger.changeover.plans import ChangeoverKind, StepName
from ledger.cli.changeover.followed import Followed
from ledger.cli.logs import log_to_stderr
from ledger.context import Context
from ledger.errors import PreconditionError, UsageError
from ledger.facts.operations import Why
from ledger.store.snapshots import DeltaLedger, open_ledger
from ledger.terminal import StatusLine
from ledger.words import shown
from tests.support.changing_pairs import SWITCHOVER, ChangingPair, Consumer
from tests.support.checkout import CHECKOUT
from tests.support.documents import of_type, parsed
from tests.support.hostile_names import HOSTILE, UNWRITABLE
from tests.support.ledger_rows import copied_to
from tests.support.operated import FLOW, LaterClock, Operated, WrittenLedger, operated_copy, own_mark

pytestmark = pytest.mark.long

TRANSLATE = ("offsets", "translate", "--flow", FLOW)
GROUPS = (*HOSTILE, *UNWRITABLE)
TOPIC = "t; rm -rf \x1b[2J'"
"""Kafka has no such topic; a row may say so."""
ASKED = "\x1b[31mred' or 1 = 1 --\n\x9b\u202e$(id)"
SAID = "because\x1b]0;owned\x07 \u202e of\nforged: line"


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> WrittenLedger:
    """A commit of each group at an offset of its own."""
    made = WrittenLedger(copied_to(tmp_path_factory.mktemp("committed"), empty_ledger), LaterClock())
    made.writer("claimed", own_mark(), epoch=1)
    made.copied({("orders", 0): 100})
    at = {"cluster": "east", "topic": "orders", "topic_id": "id-of-orders", "partition": 0, "read_at_ms": 1}
    rows = [
        {**at, "group_id": group, "committed_offset": offset, "metadata": SAID}
        for offset, group in enumerate(GROUPS)
    ]
    made.append("checkpoints", *rows)
    return made


@pytest.fixture
def flow(committed: WrittenLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operated:
    return operated_copy(tmp_path, committed, capsys)


def entries(flow: Operated) -> set[Path]:
    """What the logs of the ledger's tables hold: nothing is written without one more."""
    found = set(Path(flow.path).glob("*/_delta_log/*"))
    assert found
    return found


IN_TURN = """
import json, sys
from contextlib import suppress
from ledger.cli.main import main
for arguments in json.loads(sys.argv[1]):
    with suppress(SystemExit):
        main(arguments)
"""


def terminal(flow: Operated, *commands: tuple[str, ...]) -> str:
    """What commands write to a terminal, one after the other in one process: to start one takes longer than they."""
    asked = json.dumps([["--config", flow.config.file, *arguments] for arguments in commands])
    command = [sys.executable, "-c", IN_TURN, asked]
    outer, inner = pty.openpty()
    process = subprocess.Popen(command, cwd=CHECKOUT, stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    written = b""
    try:
        while chunk := os.read(outer, 65536):
            written += chunk
    except OSError:  # the other side has been closed
        pass
    os.close(outer)
    process.wait(timeout=60)
    return written.decode()


def obeyed(text: str) -> list[str]:
    """Lines in which a terminal would obey something."""
    return [line for line in text.replace("\r\n", "\n").split("\n") if not line.isprintable()]


# Answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", [(), ("--wide",)])
def test_a_table_has_every_group_and_nothing_that_a_terminal_obeys(
    flow: Operated, wide: tuple[str, ...]
) -> None:
    done = flow.command(*TRANSLATE, *wide)
    assert (done.code, obeyed(done.out), obeyed(done.err)) == (0, [], [])
    if wide:
        assert all(shown(group).strip() in done.out for group in GROUPS)
        assert len(done.out.splitlines()) == 2 + len(GROUPS)


def test_programs_get_every_name_as_it_is(flow: Operated) -> None:
    answer = flow.command(*TRANSLATE, "-o", "json")
    assert {row["group_id"]: row["target_offset"] for row in json.loads(answer.out)} == {
        group: offset for offset, group in enumerate(GROUPS)
    }
    assert obeyed(answer.out) == []
    rows = list(csv.DictReader(io.StringIO(flow.command(*TRANSLATE, "-o", "csv").out, newline="")))
    assert {row["group_id"] for row in rows} == set(GROUPS)
    assert {row["metadata"] for row in rows} == {SAID}


def test_a_terminal_obeys_no_form(flow: Operated) -> None:
    forms = ("table", "json", "csv", "kafka-reset")
    written = terminal(flow, *((*TRANSLATE, "-o", form) for form in forms))
    assert obeyed(written) == []
    assert "Traceback" not in written
    assert [begin in written for begin in ("group_id", '"group_id": ', "group_id,", ",0,1\r\n")] == [True] * 4
    assert written.count("31mred") >= len(forms)


def test_the_reset_file_has_what_the_tool_can_be_given_and_the_rest_is_named(flow: Operated) -> None:
    done = flow.command(*TRANSLATE, "-o", "kafka-reset")
    assert done.code == 4
    assert {(row[0], int(row[3])) for row in csv.reader(io.StringIO(done.out, newline=""))} == {
        (group, offset) for offset, group in enumerate(HOSTILE)
    }
    assert f"{len(UNWRITABLE)} offsets cannot be given to Kafka's tool" in done.err
    assert all(shown(group) in done.err for group in UNWRITABLE)
    assert obeyed(done.err) == []


@pytest.mark.parametrize("group", [name for name in GROUPS if len(name) > 15])
def test_a_group_is_asked_for_by_its_name_alone(flow: Operated, group: str) -> None:
    done = flow.command(*TRANSLATE, "--group", group, "-o", "json")
    assert [row["group_id"] for row in json.loads(done.out)] == [group]
    asked = "select c.group_id from checkpoints as c inner join params as p on p.g = c.group_id"
    done = flow.command("sql", asked, "--param", f"g={group}", "-o", "json")
    assert json.loads(done.out) == [{"group_id": group}]


def test_the_locale_does_not_matter(flow: Operated) -> None:
    """Files are UTF-8, and what a terminal cannot show is escaped."""
    command = [sys.executable, "-m", "ledger.cli.main", "--config", flow.config.file, *TRANSLATE]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [*command, "-o", "kafka-reset"], cwd=CHECKOUT, capture_output=True, env=environment, check=False
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (4, False)
    assert done.stdout.decode("utf-8") == flow.command(*TRANSLATE, "-o", "kafka-reset").out


# Where flows stand --------------------------------------------------------------------------------


@pytest.fixture
def stopped(flow: Operated) -> Operated:
    """A partition stopped, a pause, a finding and a receipt: all say something hostile."""
    flow.copied({(TOPIC, 0): 5})
    at = {"topic": TOPIC, "topic_id": f"id-of-{TOPIC}", "partition": 0}
    said = {"cause": "denied", "message": SAID, "next": SAID}
    flow.operation("partition_stopped", {**at, **said}, reason="denied")
    asked = flow.operation("pause", {"topic": TOPIC}, reason=SAID)
    flow.receipt(asked, "pause", "done", SAID)
    flow.operation("resume", {"topic": TOPIC}, reason=SAID)
    finding = {"finding": "source_unreachable", "topic": None, "partition": None, "open_since_ms": 1}
    flow.operation("finding_raised", {**finding, "message": SAID, "next": SAID}, reason=SAID)
    return flow


def test_a_status_says_it_without_a_terminal_obeying(stopped: Operated) -> None:
    done = stopped.command("status", "--partitions")
    assert obeyed(done.out) == []
    assert "because\\x1b]0;owned\\x07" in done.out
    assert not re.search(r"^forged", done.out, re.MULTILINE)
    checked = stopped.command("status", "--check")
    assert (checked.code, obeyed(checked.err)) == (4, [])
    as_json = stopped.command("status", "-o", "json")
    assert json.loads(as_json.out)[0]["stopped"][0]["message"] == SAID
    assert obeyed(as_json.out) == []
    assert obeyed(terminal(stopped, ("status", "-o", "csv"))) == []


def test_a_command_to_copy_is_read_back_by_a_shell_as_meant(stopped: Operated) -> None:
    done = stopped.command("status")
    [line] = [
        line.strip() for line in done.out.splitlines() if line.strip().startswith("mirror-ledger resume")
    ]
    script = f'mirror-ledger() {{ printf "%s\\0" "$@"; }}; {line}'
    words = (
        subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout.decode().split("\0")
    )
    assert words[:6] == ["resume", FLOW, "--topic", TOPIC, "--partition", "0"]


# Questions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        (*TRANSLATE, "--group", "{}"),
        (*TRANSLATE, "--topic", "{}"),
        (*TRANSLATE, "--topic", "{}", "--partition", "0", "--offset", "0"),
        ("offsets", "translate", "--flow", "{}"),
        ("offsets", "set", "--flow", "{}", "--all-groups"),
        ("status", "{}"),
        ("query", "{}"),
        ("query", "flow_positions", "--param", "flow={}"),
        ("query", "flow_positions", "--param", "{}=1"),
        ("query", "flow_positions", "--param", f"flow={FLOW}", "--as-of", "{}"),
        ("sql", "{}"),
        ("sql", "select 1", "--param", "{}=1"),
        ("sql", "select 1", "--as-of", "{}"),
        ("pause", FLOW, "--topic", "{}"),
        ("doctor", "{}"),
        ("{}",),
        ("status", "--{}"),
        ("status", "-o", "{}"),
        ("--config", "{}", "status"),
    ],
    ids=" ".join,
)
def test_a_hostile_argument_is_refused_and_not_obeyed(flow: Operated, arguments: tuple[str, ...]) -> None:
    before = entries(flow)
    done = flow.command(*(argument.format(ASKED) for argument in arguments))
    assert done.code in (2, 5), done
    assert (done.out, obeyed(done.err)) == ("", [])
    assert "Traceback" not in done.err
    assert entries(flow) == before


def test_bytes_that_are_no_text_are_refused_before_anything_is_done(flow: Operated) -> None:
    command: list[str | bytes] = [sys.executable, "-m", "ledger.cli.main", "--config", flow.config.file]
    pause = [*command, "pause", FLOW, "--topic", "orders", "--reason", b"\xff"]
    done = subprocess.run(pause, cwd=CHECKOUT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"error: argument 8 is not UTF-8 text: '\\udcff'; nothing was done" in done.stderr
    assert flow.operations() == []
    piped = subprocess.run(
        [*command, "sql"], cwd=CHECKOUT, input=b"select '\xff'", capture_output=True, timeout=60, check=False
    )
    assert (piped.returncode, piped.stdout, b"Traceback" in piped.stderr) == (2, b"", False)


TOO_LARGE = str(2**63)


@pytest.mark.parametrize("number", ["9" * 5000, "1_000", "\uff11", " 1", "0x1", "", "1e3", TOO_LARGE])
def test_a_number_is_written_as_numbers_are(flow: Operated, number: str) -> None:
    asked = ("query", "replication_lag", "--param", f"flow={FLOW}", "--param", f"fresh_since_ms={number}")
    done = flow.command(*asked)
    assert (done.code, done.out) == (2, "")
    assert "fresh_since_ms" in done.err


@pytest.mark.parametrize(
    "place",
    [
        ("-1", "0"),
        ("0", "-1"),
        (str(2**31), "0"),
        ("0", TOO_LARGE),
        ("9" * 5000, "0"),
        ("0", "1.0"),
        ("1", "0"),
    ],
)
def test_a_place_out_of_range_is_refused(flow: Operated, place: tuple[str, str]) -> None:
    done = flow.command(*TRANSLATE, "--topic", "orders", "--partition", place[0], "--offset", place[1])
    assert (done.code, done.out, "Traceback" in done.err) == (2, "", False)


def test_a_parameter_is_given_once(flow: Operated) -> None:
    done = flow.command("sql", "select a from params", "--param", "a=1", "--param", "a=2")
    assert (done.code, "given twice" in done.err) == (2, True)


@settings(print_blob=True, deadline=None, max_examples=100)
@given(
    st.text()
    | st.from_regex(r"v[12]\.[A-Za-z0-9_=-]{0,40}", fullmatch=True)
    | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]{0,12}([+-][0-9]{2}:[0-9]{2}|Z)?", fullmatch=True)
    | st.integers().map(str)
)
def test_what_is_no_cut_is_refused(empty_ledger: Path, text: str) -> None:
    with suppress(UsageError):
        DeltaLedger(str(empty_ledger)).as_of(text, now_ms=2)
        assert 0 < int(text) <= 10_002, "a time that has come"


# Elsewhere ----------------------------------------------------------------------------------------


def test_views_keep_a_writer_of_any_name_on_one_line(flow: Operated) -> None:
    strange = "it's;\nback\\slash\t\x1b"
    stamp = {"writer": strange, "writer_epoch": 1, "round": 1}
    flow.append("topics", {**stamp, "cluster": "east", "topic": "t", "topic_id": "t", "event": "observed"})
    cut = open_ledger(flow.path).now().cut.token
    printed = flow.command("views", "--as-of", cut).out
    assert strange not in printed
    assert all(not re.search(r";$", part, re.MULTILINE) for part in printed.split(";\n"))
    connection = duckdb.connect()
    connection.execute(printed)
    assert connection.execute("select topic from topics where writer = ?", [strange]).fetchall() == [("t",)]
    spark = flow.command("views", "--engine", "spark", "--as-of", cut).out
    assert "'it''s;' || chr(10) || 'back' || chr(92) || 'slash' || chr(9) || '' || chr(27) || ''" in spark


def test_a_log_line_is_printable_and_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    log_to_stderr()
    logging.getLogger("ledger").warning("group %s", "\x1b[2J\nERROR \rforged")
    assert capsys.readouterr().err == "WARNING group \\x1b[2J\\nERROR \\rforged\n"
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("ledger").exception("a\nb")
    first, *traceback = capsys.readouterr().err.splitlines()
    assert (first, traceback[0], traceback[-1]) == (
        "ERROR a\\nb",
        "Traceback (most recent call last):",
        "ValueError: why",
    )


# Changes of direction ----------------------------------------------------------------------------

MARKUP = "x[/y] \x1b]0;owned\x07\x1b[2J\n  0.1 s  forged"
"""A group whose name rich reads as the end of a style that nobody began, that renames a terminal, and has two lines."""


def test_a_group_of_any_name_is_waited_for_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    pair = ChangingPair()
    consumer = Consumer(pair.east, MARKUP, [])
    consumer.join()
    consumer.poll()
    pair.schedule.wait(6.0)
    pair.recorders.record_all()
    plan = pair.plan(ChangeoverKind.SWITCHOVER, replace(SWITCHOVER, groups_seconds=2.0))
    drawn = io.StringIO()
    reports = Followed(StatusLine(drawn, is_terminal=True)).reports

    def take_its_time(step: StepName, words: str) -> None:
        """The line is drawn by a thread of its own, and simulated time needs none."""
        reports.waits(step, words)
        give_up = time.monotonic() + 10.0
        while "x[/y]" in words and "x[/y]" not in drawn.getvalue() and time.monotonic() < give_up:
            time.sleep(0.02)

    with pair.outside.seen_by(pair.outside.process()):
        context = Context(pair.config, Why("a drill"))
        with pytest.raises(PreconditionError, match=r"x\[/y\]"):
            apply_plan(context, plan, lambda what, _waits: what, replace(reports, waits=take_its_time))
    rows = [row["kind"] for row in pair.ledger.rows("operations")]
    assert "step_failed" in rows
    assert shown(MARKUP) in drawn.getvalue().replace("\n", "")
    assert MARKUP[6:] not in drawn.getvalue()
    assert "FAILED" in (err := capsys.readouterr().err)
    assert obeyed(err) == []
    assert not re.search(r"^ *0\.1 s  forged", err, re.MULTILINE)
    pair.end()


# One gate -----------------------------------------------------------------------------------------

GATE = CHECKOUT / "ledger" / "terminal.py"
SANDBOX_COMMANDS = [CHECKOUT / "ledger" / "sandbox" / f"{name}.py" for name in ("command", "demo")]
DRAWN = {"update", "status", "print", "add_row", "add_column", "log", "rule", "input"}
"""What rich draws with; each takes a str as markup, or lets escapes through."""


def test_no_text_reaches_rich_but_through_the_gate() -> None:
    imports = {
        path.relative_to(CHECKOUT)
        for path in of_type(".py", "ledger", "jobs")
        if "rich" in path.read_text()
        for node in ast.walk(parsed(path))
        for name in imported(node)
        if name.split(".")[0] == "rich"
    }
    assert imports == {GATE.relative_to(CHECKOUT)}
    calls = [
        (node.func.attr, argument)
        for node in ast.walk(parsed(GATE))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DRAWN
        for argument in node.args
    ]
    drawn = {name: ast.unparse(argument) for name, argument in calls}
    assert drawn.keys() == {"update", "status", "print", "add_row", "add_column"}
    assert drawn.pop("print") == "table", "of which every header and cell has passed"
    assert all(re.match(r"as_text\(|\*map\(as_text, ", words) for words in drawn.values()), drawn


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [one.name for one in node.names] if isinstance(node, ast.Import) else []


def test_commands_write_by_the_functions_that_escape() -> None:
    """`click.echo`, `print` and the streams do not."""
    found = [
        f"{path.name}: {ast.unparse(node)}"
        for path in [*(CHECKOUT / "ledger" / "cli").rglob("*.py"), *SANDBOX_COMMANDS]
        if path.name != "printing.py"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and re.fullmatch(
            r"print|(click\.)?(echo|secho|prompt|confirm)|sys\.std(out|err)\.write", ast.unparse(node.func)
        )
        and "ending after the round under way" not in ast.unparse(node)  # a signal's, of fixed words
    ]
    assert found == []
