"""What `mirror-ledger views --for QUERY --engine spark` prints makes a Spark session answer, now and as of earlier."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.answers.printed import WIDTH, for_spark
from ledger.store import catalog
from tests.support.checkout import CHECKOUT
from tests.support.ledger_rows import append
from tests.support.ledgers import largest_case, written

MOST_LINES = 1_500
LATER_MS = 1_700_000_000_000
"""When rows are recorded that come behind those of a case."""
LOSSES = catalog.query("flow_losses")
CASE = largest_case("flow_losses")
EXPECTED = CASE.expected(LOSSES).to_pylist()
[BLOCK] = [
    block
    for block in re.findall(
        r"^```python\n(.*?)^```$",
        (CHECKOUT / "queries" / "README.md").read_text(encoding="utf-8"),
        re.M | re.S,
    )
    if "SparkSession.builder" in block
]


def typed(session: SparkSession, text: str) -> None:
    for statement in text.split(";\n"):
        if statement.strip():
            session.sql(statement)


def losses(session: SparkSession) -> list[dict[str, object]]:
    asked = f"select * from flow_losses('{CASE.params(LOSSES)['flow']}')"
    return [row.asDict() for row in session.sql(asked).collect()]


def test_what_is_typed_again_reads_what_came_since_or_what_was_there_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As of now, a time, and a cut; what is no time, and a cut of another ledger, are one clear error each."""
    (tmp_path / "it's -- written").mkdir()
    at = written(tmp_path / "it's -- written" / "ledger", CASE)
    path = at.path
    text, of_cut = for_spark(at, [LOSSES]), for_spark(at, [LOSSES], at.cut)
    own = spark.newSession()
    with pytest.raises(Exception, match=r"set ledger\.scratch = FOLDER before this text; nothing was read"):
        typed(own, text)
    own.sql(f"set ledger.scratch = {tmp_path / 'scratch'}")
    typed(own, text)
    assert losses(own) == EXPECTED
    for one in at.rows("offset_syncs", []):
        later = {
            "writer_epoch": 1 << 20,
            "recorded_at_ms": LATER_MS,
            "source_topic": f"{one['source_topic']}-later",
        }
        append(path, "offset_syncs", [{**one, **later}])
    for asked, is_earlier in (
        ("select 1", False),
        (f"set ledger.as_of = {LATER_MS - 1}", True),
        ("reset ledger.as_of", False),
    ):
        own.sql(asked)
        typed(own, text)
        assert (losses(own) == EXPECTED) is is_earlier, asked
    typed(own, of_cut)
    assert losses(own) == EXPECTED
    own.sql("set ledger.as_of = yesterday")
    with pytest.raises(Exception, match="got yesterday; nothing was read"):
        typed(own, text)
    own.sql('set ledger.as_of = {"ledger": "another-one", "last": []}')
    with pytest.raises(
        Exception, match=rf"another ledger \(another-one; this one is {at.cut.ledger_id}\); nothing"
    ):
        typed(own, text)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of a file that it leaves open
def test_what_the_readme_of_the_queries_does_in_spark_works(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The block that makes a session, which is the one that is there, between the clusters of a case."""
    case, query = largest_case("offset_translation"), catalog.query("offset_translation")
    block = BLOCK.replace("/tmp/", f"{tmp_path}/")
    for name, alias in (("east", "from_cluster"), ("west", "to_cluster")):
        block = block.replace(f"'{name}'", f"'{case.params(query)[alias]}'")
    text = for_spark(written(tmp_path / "ledger", case), [query])
    assert text.count("\n") <= MOST_LINES
    assert [line for line in text.splitlines() if len(line) > WIDTH and str(tmp_path) not in line] == []
    (tmp_path / "offset_translation.sql").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(CHECKOUT / ".venv" / "bin"), prepend=":")
    named: dict[str, SparkSession] = {}
    exec(block, named)
    assert "group_id" in capsys.readouterr().out
    params = case.params(query)
    asked = f"select * from offset_translation('{params['from_cluster']}', '{params['to_cluster']}')"
    found = [row.asDict() for row in named["spark"].sql(asked).collect()]
    assert found == case.expected(query).to_pylist()
