"""`Ledger`: what commands answer, as frozen values and as Arrow, at one cut."""

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

import duckdb
import pytest

import ledger as package
from ledger import Ledger
from ledger.answers.drivers import DriverState
from ledger.api import FlowRequest, PartitionLag, PartitionLoss
from ledger.config.file import CONFIG_VARIABLE
from ledger.errors import ConfigurationError, PreconditionError, SetupError, UsageError
from ledger.offsets.statuses import TranslationStatus
from ledger.store import catalog
from tests.support.checkout import CHECKOUT
from tests.support.operated import FLOW, Operated, operated, own_mark

pytestmark = pytest.mark.long

README = (CHECKOUT / "queries" / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def opened(flow: Operated) -> Ledger:
    return Ledger.open(flow.config.file)


def printed(flow: Operated, *arguments: str) -> Any:
    """What a command prints, as JSON has it."""
    done = flow.command(*arguments, "-o", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


# Commands and values say the same ----------------------------------------------------------------


def test_translations_are_those_of_the_command(flow: Operated, opened: Ledger) -> None:
    found = opened.translate(flow=FLOW)
    assert found.table.to_pylist() == printed(flow, "offsets", "translate", "--flow", FLOW)
    unasked = dict.fromkeys(
        ("time_offset", "skipped", "repeated_by_time", "outputs", "last_committed_offset")
    )
    assert [dataclasses.asdict(row) for row in found] == [
        {**row, **unasked} for row in found.table.to_pylist()
    ]
    assert {(row.group_id, row.source_partition): (row.target_offset, row.status) for row in found} == {
        ("billing", 0): (4, TranslationStatus.EXACT),
        ("billing", 1): (0, TranslationStatus.NO_COMMIT),
        ("unlucky", 0): (10, TranslationStatus.LOST),
        ("unlucky", 1): (0, TranslationStatus.NO_COMMIT),
        ("vanished", 0): (5, TranslationStatus.GONE),
    }
    assert {row.group_id for row in opened.translate(flow=FLOW, groups=["billing"])} == {"billing"}
    assert len(opened.translate(flow=FLOW, topic="orders", partition=1)) == 2


@pytest.mark.parametrize("nobody", [(), []], ids=repr)
def test_none_named_are_all_groups_also_where_there_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_ledger: Path, nobody: Sequence[str]
) -> None:
    made = operated(tmp_path, empty_ledger, capsys)
    made.writer("claimed", "elsewhere:1:1", epoch=1)
    ledger = Ledger.open(made.config.file)
    assert len(ledger.translate(flow=FLOW, groups=nobody)) == 0
    assert len(ledger.translate("east", "west", groups=nobody)) == 0


def test_one_offset_is_one_row(flow: Operated, opened: Ledger) -> None:
    found = opened.translate(flow=FLOW, topic="orders", partition=0, offset=7)
    place = ("--topic", "orders", "--partition", "0", "--offset", "7")
    assert found.table.to_pylist() == printed(flow, "offsets", "translate", "--flow", FLOW, *place)
    [one] = found
    assert (one.group_id, one.target_topic, one.target_offset) == (None, "east.orders", 7)
    assert one.status is TranslationStatus.EXACT


def test_lag_requests_and_queries_are_those_of_the_command(flow: Operated, opened: Ledger) -> None:
    flow.command("pause", FLOW, "--topic", "orders", "--reason", "broker move")
    newer = opened.at(None)
    of_flow = ("--param", f"flow={FLOW}")
    asked = printed(flow, "query", "flow_operations", *of_flow)
    assert [dataclasses.asdict(row) for row in newer.requests(FLOW)] == asked
    assert [row.reason for row in newer.requests(FLOW)] == ["broker move"]
    assert len(opened.requests(FLOW)) == 0, "that is a cut before"
    positions = newer.query("flow_positions", flow=FLOW)
    assert positions.table.to_pylist() == printed(flow, "query", "flow_positions", *of_flow)
    assert [row.source_end for row in positions] == [20, 10]
    assert [dataclasses.asdict(row) for row in newer.lag(FLOW)] == newer.lag(FLOW).table.to_pylist()


def test_a_status_is_that_of_the_command(flow: Operated, opened: Ledger) -> None:
    found = opened.status()
    [told] = printed(flow, "status")
    assert [report.flow for report in found.flows] == [told["flow"]] == [FLOW]
    assert found.flows[0].losses[0].cause == told["losses"][0]["cause"]
    assert found.partitions.num_rows == 2
    assert found.needs_attention == [f"{FLOW}: {reason}" for reason in told["needs_attention"]]
    assert opened.status(FLOW) == found


def test_statements_read_the_same_cut(flow: Operated, opened: Ledger) -> None:
    counted = "select count(*) as n, typeof(first(p.x)) as t from offset_syncs cross join params as p"
    before = opened.sql(counted, x=1).rows
    flow.copied({("payments", 0): 10})
    assert opened.sql(counted, x=1).rows == before
    assert before[0]["t"] == "BIGINT"
    assert opened.at(None).sql(counted, x=1).rows[0]["n"] == before[0]["n"] + 2
    lag = (CHECKOUT / "queries" / "replication_lag.sql").read_text(encoding="utf-8")
    assert opened.sql(lag, flow=FLOW).table.equals(opened.lag(FLOW).table)
    with opened.sql_session({"x": True}) as session:
        made, read = session.answers("create table t as select x from params; select x from t")
    assert (made, read and read.to_pylist()) == (None, [{"x": True}])


def test_views_are_those_of_the_command(flow: Operated, opened: Ledger) -> None:
    assert opened.views() == flow.command("views").out
    assert "delta.`" in opened.views("spark")


@pytest.mark.parametrize(
    ("row", "queries"),
    [
        (PartitionLag, ("replication_lag",)),
        (PartitionLoss, ("failover_loss",)),
        (FlowRequest, ("flow_operations",)),
    ],
)
def test_rows_have_the_columns_of_their_queries(row: type[Any], queries: tuple[str, ...]) -> None:
    columns = {
        column.name: column.type for name in reversed(queries) for column in catalog.query(name).columns
    }
    types = {"string": str, "bigint": int, "int": int, "boolean": bool, "double": float}
    hints = get_type_hints(row)
    assert set(hints) == set(columns)
    for name, type_ in columns.items():
        members = getattr(hints[name], "__args__", (hints[name],))
        assert all(issubclass(one, (types[type_], type(None))) for one in members), name


# Cuts ---------------------------------------------------------------------------------------------


def test_what_is_recorded_later_is_in_no_answer_and_a_cut_is_found_again(
    flow: Operated, opened: Ledger
) -> None:
    first, cut = opened.translate(flow=FLOW), opened.cut
    flow.copied({("bills", 0): 10})
    assert (opened.translate(flow=FLOW), opened.cut) == (first, cut)
    assert opened.query("flow_positions", flow=FLOW).table.num_rows == 2
    newest = opened.at(None)
    assert (newest.query("flow_positions", flow=FLOW).table.num_rows, newest.cut == cut) == (3, False)
    again = newest.at(cut)
    assert again.cut == cut
    assert again.translate(flow=FLOW) == first
    assert again.status().maintenance == ()
    assert again.status().flows[0].driver.state is DriverState.CLAIMED


def test_a_time_may_be_text_a_number_or_a_datetime(flow: Operated) -> None:
    at_ms = flow.clock.now_ms()
    flow.copied({("bills", 0): 10})
    moment = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    cuts = {
        Ledger.open(flow.config, as_of=asked).cut
        for asked in (at_ms, str(at_ms), moment, f"{moment:%FT%T.%f%z}")
    }
    assert len(cuts) == 1
    with pytest.raises(UsageError, match="needs an offset"):
        Ledger.open(flow.config, as_of=moment.replace(tzinfo=None))


def test_ages_are_counted_to_when_it_was_opened(flow: Operated) -> None:
    """However long somebody holds a ledger, its driver does not fall silent in it."""
    flow.writer("claimed", own_mark(), epoch=2)
    held = Ledger.open(flow.config)
    later = dataclasses.replace(held, opened_at_ms=held.opened_at_ms + 3_600_000)
    assert held.status().flows[0].driver.state is DriverState.RUNNING
    assert held.status().flows[0].at_ms == held.opened_at_ms
    assert later.status().flows[0].driver.state is DriverState.SILENT


# Errors -------------------------------------------------------------------------------------------


def test_what_cannot_be_opened_says_why(
    flow: Operated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, flow.config.file)
    assert Ledger.open().config == flow.config
    monkeypatch.delenv(CONFIG_VARIABLE)
    with pytest.raises(UsageError, match=CONFIG_VARIABLE):
        Ledger.open()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Ledger.open(tmp_path / "none.toml")
    elsewhere = flow.config.ledger.model_copy(update={"path": str(tmp_path / "none")})
    with pytest.raises(SetupError, match="is not a ledger"):
        Ledger.open(flow.config.model_copy(update={"ledger": elsewhere}))


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda asked: asked.translate(flow="nope"), UsageError, "nope"),
        (lambda asked: asked.translate(flow=FLOW, groups="billing"), UsageError, "list of names"),
        (lambda asked: asked.translate(flow=FLOW, groups=[1]), UsageError, "is Unicode text"),
        (
            lambda asked: asked.translate(flow=FLOW, topic="orders", partition="0"),
            UsageError,
            "whole number",
        ),
        (lambda asked: asked.translate(flow=1), UsageError, "is Unicode text"),
        (lambda asked: asked.at(1.5), UsageError, "whole number"),
        (lambda asked: asked.at(True), UsageError, "whole number"),
        (lambda asked: asked.translate(flow=FLOW, groups=["nobody"]), PreconditionError, "'nobody'"),
        (lambda asked: asked.translate(flow=FLOW, partition=0), UsageError, "needs its topic"),
        (lambda asked: asked.translate(flow=FLOW, groups=["\udc80"]), UsageError, "is Unicode text"),
        (lambda asked: asked.translate(flow=FLOW, topic="\udc80"), UsageError, "is Unicode text"),
        (lambda asked: asked.status("nope"), UsageError, "nope"),
        (lambda asked: asked.lag("nope"), UsageError, "nope"),
        (lambda asked: asked.query("nope"), UsageError, "no query 'nope'"),
        (lambda asked: asked.query("replication_lag"), UsageError, "takes flow"),
        (lambda asked: asked.query("replication_lag", flow=1), UsageError, "is a string, got 1"),
        (lambda asked: asked.query("replication_lag", flow="\udc80"), UsageError, "is Unicode text"),
        (lambda asked: asked.query("replication_lag", flow=FLOW, colour="red"), UsageError, "colour"),
        (lambda asked: asked.query("replication_lag", flow=FLOW, fresh_since_ms=2**63), UsageError, "bigint"),
        (lambda asked: asked.sql("selct 1"), UsageError, "selct"),
        (lambda asked: asked.sql("create table t as select 1"), UsageError, "no statement has rows"),
        (lambda asked: asked.sql("select 1 as \udc80"), UsageError, "is Unicode text"),
        (lambda asked: asked.sql("select x from params", x=2**63), UsageError, "bigint"),
        (lambda asked: asked.sql("select x from params", x="\udc80"), UsageError, "is Unicode text"),
        (lambda asked: asked.sql("select x from params", **{"": 1}), UsageError, "letters, digits"),
        (lambda asked: asked.views("oracle"), UsageError, "oracle"),
        (lambda asked: asked.attach(duckdb.connect()), UsageError, "needs the names of queries"),
        (lambda asked: asked.at("\udc80"), UsageError, "is Unicode text"),
        (lambda asked: asked.at("yesterday"), UsageError, "no cut token"),
    ],
)
def test_what_cannot_be_answered_says_why(
    opened: Ledger, ask: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        ask(opened)


@pytest.mark.parametrize(
    ("partition", "offset"),
    [(0, -1), (-1, 0), (0, 2**63), (2**31, 0), (7, 0), (0, 1.0), ("0", 0), (True, 0)],
)
def test_a_place_that_there_cannot_be_is_refused(opened: Ledger, partition: Any, offset: Any) -> None:
    with pytest.raises(UsageError, match="nothing was"):
        opened.translate(flow=FLOW, topic="orders", partition=partition, offset=offset)


def test_values_cannot_be_changed(opened: Ledger) -> None:
    [one] = opened.translate(flow=FLOW, topic="orders", partition=0, offset=7)
    rows = (one, opened.query("flow_positions", flow=FLOW).rows[0], opened.status(), opened)
    for row in rows:
        name = dataclasses.fields(row)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(row, name, None)


# As a package -------------------------------------------------------------------------------------


def modules_after(statement: str) -> set[str]:
    """What a process has imported after a statement."""
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_to_import_the_package_costs_nothing_and_answers_need_neither_jvm_nor_broker(flow: Operated) -> None:
    assert not {"duckdb", "pyarrow", "deltalake", "pydantic"} & modules_after("import ledger.errors")
    asked = f"ledger = Ledger.open({flow.config.file!r}); ledger.status(); ledger.translate(flow={FLOW!r})"
    found = modules_after(f"from ledger import Ledger; {asked}; ledger.sql('select 1 as a').rows")
    assert {"duckdb", "pyarrow"} <= found
    assert not {"pyspark", "py4j", "kafka", "confluent_kafka", "click", "rich"} & found


def test_the_package_has_one_name() -> None:
    assert package.__all__ == ["Ledger"]
    assert not hasattr(package, "Ledgers")


def test_the_example_of_the_readme_runs_as_it_stands(flow: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    [example] = [one for one in examples if "from ledger import Ledger" in one]
    monkeypatch.chdir(Path(flow.config.file).parent)
    flow.stopped("orders", 1, "denied")
    flow.capture.readouterr()
    exec(example, {})
    *lines, attention = flow.capture.readouterr().out.splitlines()
    assert lines == [
        "orders 0 4 exact",
        "orders 1 0 no_commit",
        "east.orders 4 exact",
        "[5, None]",
        "20",
        "({'syncs': 5},)",
    ]
    assert attention.startswith(f"['{FLOW}: 1 partition stopped since 20")
