"""The scripts for spark-submit do what the command line does, and end with the documented codes."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.answers import spark as answers
from ledger.errors import UsageError
from ledger.store import catalog, sql
from tests.support.cases import cases_of
from tests.support.config_files import write_flow
from tests.support.drivers import loaded, submit
from tests.support.flows import FlowUnderTest, produce
from tests.support.ledgers import largest_case, written
from tests.support.recorded import broken_invariants


@pytest.fixture
def flow(flow: FlowUnderTest) -> FlowUnderTest:
    produce(flow, 3_000)
    return flow


def test_spark_submit_mirrors_until_caught_up(flow: FlowUnderTest) -> None:
    done = submit("mirror_topics", "--config", flow.config.file, "--flow", "flow", "--until-caught-up")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert (summary["flow"], summary["records"], summary["end"]) == ("flow", 3_000, "caught_up")
    assert "flow: 3,000 records, " in done.stdout, (
        "progress; spark-submit writes what a script says to its stdout"
    )
    assert "flow: caught up: 3,000 records, " in done.stdout
    assert flow.target_records() == 3_000
    assert broken_invariants(flow.config) == {}


def test_spark_submit_passes_the_exit_code_on(flow: FlowUnderTest) -> None:
    done = submit("mirror_topics", "--config", flow.config.file, "--flow", "nope")
    assert done.returncode == 2
    assert "nope" in done.stdout + done.stderr
    assert flow.rows("offset_syncs") == 0


@pytest.mark.parametrize(
    ("job", "tables"),
    [
        ("record_checkpoints", {"checkpoints", "groups"}),
        ("record_high_watermarks", {"high_watermarks"}),
    ],
)
def test_a_recorder_job_appends_its_tables_only(
    flow: FlowUnderTest, capsys: pytest.CaptureFixture[str], job: str, tables: set[str]
) -> None:
    flow.commit("jobs-group", 2, offset=100)
    arguments = ["--config", flow.config.file, "--cluster", "east", "--once"]
    assert loaded(job).main(arguments) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert set(rows) - {"share_offsets"} == tables, "other tests may have share groups at the cluster"
    assert all(flow.rows(table) == rows[table] > 0 for table in tables)
    assert loaded(job).main(["--config", flow.config.file, "--cluster", "nope", "--once"]) == 2


CLUSTERS = {"east": "127.0.0.1:1", "west": "127.0.0.1:2"}
OF_VIEWS_THAT_VIEWS_READ = "lineage"
"""`test_spark.py` asks all queries, of ledgers in memory."""


def test_spark_answers_what_duckdb_answers(spark: SparkSession, tmp_path: Path) -> None:
    case = largest_case(OF_VIEWS_THAT_VIEWS_READ)
    query = catalog.query(OF_VIEWS_THAT_VIEWS_READ)
    at = written(tmp_path / "ledger", case)
    params = case.params(query)
    found = answers.run_query(spark, query, params, at)
    assert found.num_rows
    assert found.to_pylist() == sql.run_query(query, params, at).to_pylist()
    assert found.column_names == [column.name for column in query.columns]


def test_a_callers_views_of_the_same_names_stay(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([("mine",)], "params string").createOrReplaceTempView("params")
    at = written(tmp_path / "ledger", largest_case("topic_coverage"))
    assert answers.run_query(spark, catalog.query("topic_coverage"), {"cluster": "E"}, at).num_rows
    assert spark.table("params").collect()[0].asDict() == {"params": "mine"}
    with pytest.raises(UsageError, match="takes cluster, got none; nothing was read"):
        answers.run_query(spark, catalog.query("topic_coverage"), {}, at)


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A configuration beside the ledger of a case."""
    written(tmp_path / "ledger", largest_case("consistent_cut"))
    return str(write_flow(tmp_path, CLUSTERS, 'topics = ["t"]').file)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nonsense"], 2, "no query 'nonsense'; known: audit_l1_tiling"),
        (["consistent_cut"], 2, "query consistent_cut takes at_ms, [cluster], got none; nothing was read"),
        (["consistent_cut", "--param", "at_ms"], 2, "--param takes KEY=VALUE, got 'at_ms'; nothing was read"),
        (["consistent_cut", "--param", "at_ms=soon"], 2, "--param at_ms takes a number, got 'soon'"),
        (
            ["consistent_cut", "--param", "at_ms=1", "-o", "csv", "--wide"],
            2,
            "--wide is about tables, not -o csv",
        ),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    config: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert loaded("answer").main(["--config", config, *arguments]) == code
    assert message in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be written: .*; the answer is not there"):
        loaded("answer").write(tmp_path / "nowhere" / "answer.csv", "")


def test_an_audit_with_rows_exits_with_4(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = next(case for case in cases_of("audit_l5_produce_before_record") if case.blocks["expect"])
    written(tmp_path / "ledger", broken)
    file = str(write_flow(tmp_path, CLUSTERS, 'topics = ["t"]').file)
    assert loaded("answer").main(["--config", file, "audit_l5_produce_before_record", "-o", "csv"]) == 4
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) > 1
    assert "rows break the invariant" in printed.err
