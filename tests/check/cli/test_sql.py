"""`sql`: statements on the ledger at a cut, which they can read and never change; the prompt; `views`."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import duckdb
import pytest

from ledger.answers.elsewhere import SealedLedger, sealed
from ledger.cli.answers.prompt import Prompt
from ledger.errors import UsageError
from ledger.facts.tables import TABLES
from ledger.offsets.rendering import render_csv
from ledger.store import catalog
from ledger.store.snapshots import open_ledger
from tests.support.checkout import CHECKOUT
from tests.support.histories import examples
from tests.support.ledger_rows import copied_to
from tests.support.operated import FLOW, LaterClock, Operated, WrittenLedger, operated_copy, own_mark

pytestmark = pytest.mark.long

LAG = CHECKOUT / "queries" / "replication_lag.sql"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> WrittenLedger:
    """Two partitions were copied."""
    made = WrittenLedger(copied_to(tmp_path_factory.mktemp("copied"), empty_ledger), LaterClock())
    made.writer("claimed", own_mark())
    made.copied({("orders", 0): 100, ("orders", 1): 50})
    made.watermark("orders", 0, end=130)
    return made


@pytest.fixture
def flow(copied: WrittenLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operated:
    return operated_copy(tmp_path, copied, capsys)


def files(path: str) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}


# Statements ------------------------------------------------------------------------------------


def test_a_statement_reads_tables_and_views(flow: Operated) -> None:
    done = flow.command("sql", "select sum(records) as n from offset_syncs", "-o", "csv")
    assert (done.code, done.out, done.err) == (0, "n\n150\n", "")


def test_a_file_of_queries_runs_as_it_is(flow: Operated) -> None:
    here = flow.command("sql", "--file", str(LAG), "--param", f"flow={FLOW}", "-o", "json")
    there = flow.command("query", "replication_lag", "--param", f"flow={FLOW}", "-o", "json")
    assert json.loads(here.out) == json.loads(there.out)
    assert [row["source_partition"] for row in json.loads(here.out)] == [0, 1]


def test_parameters_are_those_of_the_header(flow: Operated) -> None:
    done = flow.command("sql", "--file", str(LAG))
    assert (done.code, done.out) == (2, "")
    assert "query replication_lag takes flow, [fresh_since_ms], got none" in done.err


def test_parameters_without_a_header_are_as_they_look(flow: Operated) -> None:
    asked = "select typeof(a) as a, typeof(b) as b, typeof(c) as c, typeof(d) as d from params"
    params = [f"--param={text}" for text in ("a=1", "b=true", "c=x y", "d=99999999999999999999")]
    done = flow.command("sql", asked, *params, "-o", "json")
    assert json.loads(done.out) == [{"a": "BIGINT", "b": "BOOLEAN", "c": "VARCHAR", "d": "VARCHAR"}]


def test_as_of_is_the_ledger_as_it_was(flow: Operated) -> None:
    done = flow.command("sql", "select count(*) as n from offset_syncs", "-o", "csv", "--show-cut")
    cut = done.err.split("cut ")[1].strip()
    flow.lost("payments", 0, 0, 5)
    again = flow.command("sql", "select count(*) as n from offset_syncs", "--as-of", cut, "-o", "csv")
    assert again.out == done.out == "n\n4\n"


def test_stdin_is_carried_out_to_its_end_and_each_statement_answered(
    flow: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = "create table x as select 7 as a;\nselect a from x; -- ';' in a comment\nselect ';' as b"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert flow.command("sql", "-o", "csv").out == "a\n7\nb\n;\n"


def test_a_wrong_statement_ends_it_and_those_before_were_answered(flow: Operated) -> None:
    done = flow.command("sql", "select 1 as a; select nothing from writers; select 2 as b", "-o", "csv")
    assert (done.code, done.out) == (2, "a\n1\n")
    assert "nothing" in done.err
    assert flow.command("sql", "selct 1").code == 2


def test_a_statement_and_a_file_are_refused(flow: Operated) -> None:
    done = flow.command("sql", "select 1", "--file", str(LAG))
    assert (done.code, done.out) == (2, "")
    missing = flow.command("sql", "--file", "no-such.sql")
    assert (missing.code, "no-such.sql cannot be read" in missing.err) == (2, True)


@pytest.mark.parametrize(
    "statement",
    [
        "insert into writers select * from writers",
        "delete from writers",
        "update writers set flow = 'x'",
        "copy (select 1) to '{path}/new.parquet'",
        "explain analyze copy (select 1) to '{path}/new.parquet'",
        "prepare p as copy (select 1) to '{path}/new.parquet'",
        "export database '{path}/new'",
        "attach '{path}/new.db'",
        "select * from read_parquet('{path}/writers/*.parquet')",
        "select * from '{path}/writers/*.parquet'",
        "select * from glob('{path}/*')",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "reset lock_configuration",
    ],
)
def test_no_statement_reaches_a_file_or_a_setting(flow: Operated, statement: str) -> None:
    path = flow.path
    before = files(path)
    done = flow.command("sql", statement.format(path=path))
    if statement.startswith("prepare"):
        done = flow.command("sql", statement.format(path=path) + "; execute p")
    assert done.code == 2
    assert files(path) == before


def test_what_is_created_is_gone_afterwards(flow: Operated) -> None:
    drop = flow.command(
        "sql", "create or replace temporary view segments as select 1 as a; select * from segments"
    )
    assert drop.code == 0
    assert flow.command("sql", "select count(*) as n from segments", "-o", "csv").out == "n\n2\n"


NAMED = [
    "select count(*) as n from segments",
    'select count(*) as n from "SEGMENTS"',
    "select count(*) as n from query('from seg' || 'ments')",
    "select count(*) as n from query_table('seg' || 'ments')",
]


@pytest.mark.parametrize("asked", examples(check=NAMED[:3], soak=NAMED))
def test_a_view_is_there_however_it_is_named(flow: Operated, asked: str) -> None:
    done = flow.command("sql", asked, "-o", "csv")
    assert (done.code, done.out) == (0, "n\n2\n"), done.err


def test_a_view_between_clusters_is_computed_in_whatever_letters_it_is_named(flow: Operated) -> None:
    done = flow.command("sql", "select count(*) as n from Link_Ends", "-o", "csv")
    assert (done.code, done.out.startswith("n\n")) == (0, True), done.err


LISTINGS = [
    "select name from (show all tables)",
    "select view_name as name from duckdb_views()",
    "select table_name as name from information_schema.tables",
]


@pytest.mark.parametrize("listing", examples(check=LISTINGS[:1], soak=LISTINGS))
def test_views_are_listed_before_any_was_read(flow: Operated, listing: str) -> None:
    done = flow.command("sql", listing, "-o", "csv")
    assert set(done.out.splitlines()) >= set(catalog.view_names())


def test_a_view_that_there_is_none_of_is_said_with_one_that_there_is(flow: Operated) -> None:
    done = flow.command("sql", "select * from segmets")
    assert done.code == 2
    assert '"segments"' in done.err


def test_a_view_of_ones_own_stays_what_it_was_made(flow: Operated) -> None:
    with sealed(open_ledger(flow.path).now(), (), {}) as ledger:
        list(ledger.answers("create or replace temporary view segments as select 7 as a"))
        [answer] = ledger.answers("select a from segments")
    assert answer is not None
    assert answer.to_pylist() == [{"a": 7}]


# The prompt ------------------------------------------------------------------------------------


def typing(*lines: str | type[BaseException]) -> tuple[Callable[[str], str], list[str]]:
    """Somebody who types these lines, or Ctrl-C, and then Ctrl-D; and the prompts that were shown."""
    left: Iterator[str | type[BaseException]] = iter(lines)
    shown: list[str] = []

    def ask(prompt: str) -> str:
        shown.append(prompt)
        line = next(left, EOFError)
        if isinstance(line, str):
            return line
        raise line

    return ask, shown


def prompted(
    flow: Operated, capture: pytest.CaptureFixture[str], *lines: str | type[BaseException]
) -> tuple[str, str]:
    ask, _ = typing(*lines)
    capture.readouterr()
    with sealed(open_ledger(flow.path).now(), (), {}) as ledger:
        Prompt(ledger, render_csv, ask).run()
    captured = capture.readouterr()
    return captured.out, captured.err


def test_a_statement_may_take_lines_and_errors_do_not_end_it(
    flow: Operated, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = (
        "select count(*) as n",
        "",
        "from writers;",
        "selct;",
        "select 'a;",
        "b' as c;",
        "create table t as select 1;",
    )
    out, err = prompted(flow, capsys, *typed)
    assert out == 'n\n1\nc\n"a;\nb"\ndone\n'
    assert err.count("error: ") == 1


def test_prompts_say_that_a_statement_goes_on(flow: Operated) -> None:
    ask, shown = typing("", "select", "1;", KeyboardInterrupt)
    with sealed(open_ledger(flow.path).now(), (), {}) as ledger:
        Prompt(ledger, render_csv, ask).run()
    assert shown == ["sql> ", "sql> ", "...> ", "sql> ", "sql> "]


def test_what_was_typed_can_be_dropped(flow: Operated, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = prompted(flow, capsys, "select 1", KeyboardInterrupt, "select 2 as b;")
    assert out == "b\n2\n"
    assert "error" not in err


class Interrupted:
    """A connection on which somebody types Ctrl-C while it computes."""

    def extract_statements(self, _: str) -> list[object]:
        raise RuntimeError("Query interrupted")


def test_a_statement_can_be_interrupted_and_the_prompt_goes_on(
    flow: Operated, capsys: pytest.CaptureFixture[str]
) -> None:
    ask, shown = typing("select 1;")
    capsys.readouterr()
    at = open_ledger(flow.path).now()
    interrupted = SealedLedger(cast(duckdb.DuckDBPyConnection, Interrupted()), at)
    Prompt(interrupted, render_csv, ask).run()
    assert "interrupted" in capsys.readouterr().err
    assert len(shown) == 2


def test_commands_of_the_prompt(flow: Operated, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = prompted(flow, capsys, ".tables", ".help", ".what", ".quit", "select 1;")
    for name in (*(table.name for table in TABLES), *catalog.view_names()):
        assert f"\n{name}," in out
    assert ".quit" in out
    assert "no command .what" in err
    assert "1\n1\n" not in out


def test_without_a_statement_a_terminal_gets_the_prompt(
    flow: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO("select count(*) as n from writers;\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    done = flow.command("sql", "-o", "csv")
    assert (done.code, "n\n1\n" in done.out) == (0, True)
    assert ".help" in done.err


# Views -----------------------------------------------------------------------------------------


def test_views_are_printed_for_both_engines(flow: Operated) -> None:
    for options, made in (((), "read_parquet(["), (("--engine", "spark"), "where exists (")):
        done = flow.command("views", *options)
        assert (done.code, made in done.out) == (0, True)
        assert "-- at the cut v2." in done.out
    assert flow.command("views", "--engine", "flink").code == 2


def test_what_answers_a_query_is_printed_for_another_duckdb(flow: Operated) -> None:
    cut = flow.command("sql", "select 1", "--show-cut").err.split("cut ")[1].strip()
    text = flow.command("views", "--for", "flow_positions", "--for", "flow_losses").out
    flow.copied({("orders", 0): 130})
    of_cut = flow.command("views", "--for", "flow_positions", "--as-of", cut).out
    with duckdb.connect() as connection:
        for typed, end in ((text, 130), (of_cut, 100)):
            connection.execute(typed)
            found = connection.execute(
                "select source_end from flow_positions(?) where source_partition = 0", [FLOW]
            )
            assert found.fetchall() == [(end,)]
        assert connection.execute("select * from flow_losses(?)", [FLOW]).fetchall() == []
    refused = flow.command("views", "--for", "flow_position")
    assert (refused.code, "no query 'flow_position'; known: " in refused.err) == (2, True)


def test_an_answer_names_the_error_of_duckdb(flow: Operated) -> None:
    with sealed(open_ledger(flow.path).now(), (), {}) as ledger, pytest.raises(UsageError, match="nowhere"):
        list(ledger.answers("select * from nowhere"))
