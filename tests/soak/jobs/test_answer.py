"""The job that answers queries, as spark-submit runs it."""

import json
from pathlib import Path

from ledger.store import catalog, sql
from ledger.store.snapshots import DeltaSnapshot, open_ledger
from tests.support.config_files import write_flow
from tests.support.drivers import submit
from tests.support.ledgers import largest_case, written

CLUSTERS = {"east": "127.0.0.1:1", "west": "127.0.0.1:2"}


def test_spark_submit_prints_the_answer_and_its_cut(tmp_path: Path) -> None:
    written(tmp_path / "ledger", largest_case("consistent_cut"))
    config = str(write_flow(tmp_path, CLUSTERS, 'topics = ["t"]').file)
    asked = ("consistent_cut", "--param", "at_ms=300", "-o", "json", "--to", str(tmp_path / "answer.json"))
    done = submit("answer", "--config", config, *asked)
    assert done.returncode == 0, done.stderr
    at = open_ledger(str(tmp_path / "ledger")).now()
    assert json.loads((tmp_path / "answer.json").read_text(encoding="utf-8")) == expected(at)
    assert f"cut {at.cut.token}" in done.stdout, "spark-submit writes what a script says to its stdout"


def expected(at: DeltaSnapshot) -> object:
    answer = sql.run_query(catalog.query("consistent_cut"), {"at_ms": 300}, at)
    assert answer.num_rows
    return answer.to_pylist()
