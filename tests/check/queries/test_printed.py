"""What `mirror-ledger views --for QUERY` makes plain DuckDB answer as the cases say, as of now or earlier."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from ledger.answers.elsewhere import attach, sealed
from ledger.answers.printed import WIDTH, for_duckdb
from ledger.errors import UsageError
from ledger.facts.tables import FORMAT_PROPERTY, TABLES
from ledger.store import catalog
from ledger.store.delta_tables import create_tables, table_uri
from ledger.store.snapshots import open_ledger
from tests.support.checkout import CHECKOUT
from tests.support.histories import examples
from tests.support.ledger_rows import append, copied_to, row
from tests.support.ledgers import filled, largest_case

pytestmark = pytest.mark.long

ASKED = ("offset_translation", "flow_losses", "replication_lag", "lineage")
MOST_LINES = 1_500
LOSSES = catalog.query("flow_losses")
CASE = largest_case("flow_losses")
EXPECTED = CASE.expected(LOSSES).to_pylist()
LATER_MS = 1_700_000_000_000
"""When rows are recorded that come behind those of a case."""


@pytest.fixture
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that knows nothing of this program, and can get nothing from anywhere but this machine's files."""
    with duckdb.connect() as connection:
        for name in ("autoinstall", "autoload"):
            connection.execute(f"set {name}_known_extensions = false")
        yield connection


def ledger_of(folder: Path, empty_ledger: Path, name: str) -> str:
    """A ledger with the rows of the largest case of a query, in a folder whose name is to be quoted."""
    (folder / "it's -- written").mkdir()
    path = copied_to(folder / "it's -- written", empty_ledger)
    filled(path, largest_case(name))
    append(
        path,
        "writers",
        [row("writers", writer="recorder:nobody", writer_epoch=1, event="left", recorded_at_ms=1)],
    )
    return path


def text_of(path: str, *names: str, as_of: str | None = None) -> str:
    at = open_ledger(path).as_of(as_of, now_ms=LATER_MS)
    return for_duckdb(at, [catalog.query(name) for name in names], None if as_of is None else at.cut)


def answers(connection: duckdb.DuckDBPyConnection, name: str) -> list[dict[str, object]]:
    """By the function of a query, with the parameters of its largest case."""
    query = catalog.query(name)
    params = largest_case(name).params(query)
    values = [params.get(one) for one in query.parameter_names]
    asked = f"select * from {name}({', '.join('?' for _ in values)})"
    found: list[dict[str, object]] = connection.sql(asked, params=values).to_arrow_table().to_pylist()
    return found


def losses(connection: duckdb.DuckDBPyConnection) -> list[dict[str, object]]:
    return answers(connection, "flow_losses")


@pytest.mark.parametrize("name", examples(check=ASKED, soak=[name for name in catalog.queries()]))
def test_a_query_answers_as_its_largest_case_says(
    plain: duckdb.DuckDBPyConnection, tmp_path: Path, empty_ledger: Path, name: str
) -> None:
    case = largest_case(name)
    text = text_of(ledger_of(tmp_path, empty_ledger, name), name)
    for _ in range(2):
        plain.execute(text)
        assert answers(plain, name) == case.expected(catalog.query(name)).to_pylist()


def test_several_queries_are_answered_by_one_text(
    plain: duckdb.DuckDBPyConnection, tmp_path: Path, empty_ledger: Path
) -> None:
    plain.execute(text_of(ledger_of(tmp_path, empty_ledger, "flow_losses"), *ASKED))
    assert losses(plain) == EXPECTED
    assert plain.execute("select * from offset_translation('nowhere', 'there')").fetchall() == []


def test_offset_translation_takes_few_lines(empty_ledger: Path) -> None:
    text = text_of(str(empty_ledger), "offset_translation")
    assert text.count("\n") <= MOST_LINES
    assert [line for line in text.splitlines() if len(line) > WIDTH and str(empty_ledger) not in line] == []
    read = catalog.views_of(catalog.query("offset_translation").reads)
    made = re.findall(r"create or replace temporary table (\w+) as", text)
    assert [name for name in made if name in catalog.views_of(read)] == list(read)
    assert "permissions" not in text


def test_statements_can_be_split_at_their_ends(
    plain: duckdb.DuckDBPyConnection, tmp_path: Path, empty_ledger: Path
) -> None:
    for statement in text_of(ledger_of(tmp_path, empty_ledger, "flow_losses"), "flow_losses").split(";\n"):
        if statement.strip():
            plain.execute(statement)
    assert losses(plain) == EXPECTED


# Typed again ------------------------------------------------------------------------------------


def more_losses(path: str) -> None:
    """Every offset sync of the case once more, behind it."""
    rows = open_ledger(path).now().rows("offset_syncs", [])
    added = [
        {
            **one,
            "writer_epoch": 1 << 20,
            "recorded_at_ms": LATER_MS,
            "source_topic": f"{one['source_topic']}-later",
        }
        for one in rows
    ]
    for one in added:
        append(path, "offset_syncs", [one])


def test_what_is_typed_again_reads_what_came_since_or_what_was_there_before(
    plain: duckdb.DuckDBPyConnection, tmp_path: Path, empty_ledger: Path
) -> None:
    """As of a time, a cut, and now again; also after merges, removal of old files, and from checkpoints alone."""
    path = ledger_of(tmp_path, empty_ledger, "flow_losses")
    text = text_of(path, "flow_losses")
    cut = open_ledger(path).now().cut
    more_losses(path)
    of_cut = text_of(path, "flow_losses", as_of=cut.token)
    [set_cut] = [one for one in of_cut.split(";\n") if "set variable as_of = '" in one]
    for _ in range(2):
        for asked, is_earlier in (
            ("select 1", False),
            (f"set variable as_of = {LATER_MS - 1}", True),
            (f"set variable as_of = {LATER_MS}", False),
            (set_cut, True),
            ("reset variable as_of", False),
        ):
            plain.execute(asked)
            plain.execute(text)
            found = losses(plain)
            assert (found == EXPECTED) is is_earlier, asked
            assert [one for one in found if not str(one["source_topic"]).endswith("-later")] == EXPECTED
        for table in TABLES:
            merged_and_cleaned(path, table.name)
    plain.execute(of_cut)
    assert losses(plain) == EXPECTED


def merged_and_cleaned(path: str, table: str) -> None:
    """Nothing is left of what the newest version does not need, and of its log a checkpoint and the last entry."""
    opened = DeltaTable(table_uri(path, table))
    opened.optimize.compact()
    opened.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    opened.create_checkpoint()
    for entry in (Path(table_uri(path, table)) / "_delta_log").glob("*.json"):
        if int(entry.stem) < opened.version():
            entry.unlink()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of files that it leaves open
def test_what_the_readme_of_the_queries_does_in_duckdb_works(
    tmp_path: Path, empty_ledger: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The block that connects DuckDB, between the clusters of a case: the same answer now and as of an hour ago."""
    readme = (CHECKOUT / "queries" / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    [block] = [one for one in blocks if "duckdb.connect()" in one]
    case, query = largest_case("offset_translation"), catalog.query("offset_translation")
    for name, alias in (("east", "from_cluster"), ("west", "to_cluster")):
        block = block.replace(f"'{name}'", f"'{case.params(query)[alias]}'")
    text = text_of(ledger_of(tmp_path, empty_ledger, "offset_translation"), "offset_translation")
    (tmp_path / "offset_translation.sql").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    assert capsys.readouterr().out.count(f"{case.expected(query).num_rows} rows") == 2


# Attached -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", examples(check=ASKED[:1], soak=ASKED))
def test_an_attached_query_answers_as_its_largest_case_says(
    plain: duckdb.DuckDBPyConnection, tmp_path: Path, empty_ledger: Path, name: str
) -> None:
    """Also in `mirror-ledger sql`, which reads the rows by itself."""
    path = ledger_of(tmp_path, empty_ledger, name)
    expected = largest_case(name).expected(catalog.query(name)).to_pylist()
    at = open_ledger(path).now()
    for _ in range(2):
        attach(plain, at, [catalog.query(name)])
        assert answers(plain, name) == expected
    query = catalog.query(name)
    params = largest_case(name).params(query)
    texts = ("null" if params.get(one) is None else f"'{params[one]}'" for one in query.parameter_names)
    values = ", ".join(texts)
    with sealed(at, (), {}) as session:
        [found] = session.answers(f"select * from {name.upper()}({values})")
        assert found is not None
        assert found.to_pylist() == expected


def test_what_is_attached_is_a_cut_until_it_is_attached_again(
    plain: duckdb.DuckDBPyConnection, tmp_path: Path, empty_ledger: Path
) -> None:
    path = ledger_of(tmp_path, empty_ledger, "flow_losses")
    before = open_ledger(path).now()
    attach(plain, before, [LOSSES])
    more_losses(path)
    assert losses(plain) == EXPECTED
    attach(plain, open_ledger(path).now(), [LOSSES])
    assert losses(plain) != EXPECTED
    attach(plain, open_ledger(path).as_of(before.cut.token, now_ms=LATER_MS), [LOSSES])
    assert losses(plain) == EXPECTED


def test_what_has_a_name_that_is_needed_is_said(plain: duckdb.DuckDBPyConnection, empty_ledger: Path) -> None:
    plain.execute("create temporary table offset_syncs as select 1 as a")
    with pytest.raises(UsageError, match="offset_syncs"):
        attach(plain, open_ledger(str(empty_ledger)).now(), [LOSSES])


# Refused ----------------------------------------------------------------------------------------


def refused(connection: duckdb.DuckDBPyConnection, text: str) -> str:
    with pytest.raises(duckdb.Error) as raised:
        connection.execute(text)
    return str(raised.value)


def test_a_ledger_of_another_format_is_one_clear_error(
    plain: duckdb.DuckDBPyConnection, tmp_path: Path, empty_ledger: Path
) -> None:
    path = ledger_of(tmp_path, empty_ledger, "flow_losses")
    text = text_of(path, "flow_losses")
    DeltaTable(table_uri(path, "offset_syncs")).alter.set_table_properties(
        {FORMAT_PROPERTY: "7"}, raise_if_not_exists=False
    )
    found = refused(plain, text)
    assert (
        f"the table offset_syncs at {path} is of format 7, and this text reads 3; nothing was read" in found
    )


def test_a_cut_of_another_ledger_is_one_clear_error(
    plain: duckdb.DuckDBPyConnection, tmp_path: Path, empty_ledger: Path
) -> None:
    path = ledger_of(tmp_path, empty_ledger, "flow_losses")
    other = {"ledger": "another-one", "last": []}
    plain.execute("set variable as_of = $cut", {"cut": json.dumps(other)})
    found = refused(plain, text_of(path, "flow_losses"))
    ledger_id = open_ledger(path).now().cut.ledger_id
    assert f"the cut is of another ledger (another-one; this one is {ledger_id}); nothing was read" in found


@pytest.mark.parametrize(
    ("as_of", "said"),
    [
        (
            "yesterday",
            "as_of is a time in milliseconds, or what mirror-ledger views --as-of prints, got yesterday",
        ),
        ("9100000000000", "as_of 9100000000000 has not come yet"),
        ("0", "the ledger begins at 1, asked for 0 (milliseconds since the epoch)"),
    ],
)
def test_what_is_no_time_that_has_come_is_one_clear_error(
    plain: duckdb.DuckDBPyConnection, tmp_path: Path, empty_ledger: Path, as_of: str, said: str
) -> None:
    plain.execute("set variable as_of = $as_of", {"as_of": as_of})
    found = refused(plain, text_of(ledger_of(tmp_path, empty_ledger, "flow_losses"), "flow_losses"))
    assert f"{said}; nothing was read" in found


def test_where_no_ledger_is_and_where_nothing_is_recorded_are_errors(
    plain: duckdb.DuckDBPyConnection, tmp_path: Path, empty_ledger: Path
) -> None:
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    text = text_of(path, "flow_losses")
    assert f"nothing is recorded yet in the ledger at {path}; nothing was read" in refused(plain, text)
    Path(path).rename(tmp_path / "away")
    assert f"there is no ledger at {path}; nothing was read" in refused(plain, text)


def test_files_that_duckdb_alone_would_read_otherwise_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "led*ger")
    create_tables(path, now_ms=1)
    with pytest.raises(UsageError, match="nothing was printed"):
        text_of(path, "flow_losses")
