"""Copies of a ledger: of one instant, whole wherever the process dies, never appended to; and ledgers made of them."""

import json
import shutil
from itertools import count
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ledger.clock import SystemClock
from ledger.errors import DamagedLedgerError, MirrorLedgerError, PreconditionError, ShutOutError, UsageError
from ledger.facts.operations import Why
from ledger.facts.state import WriterClaim
from ledger.facts.tables import STAMP, TABLES
from ledger.offsets.restored import unread_since_restored
from ledger.store import answers
from ledger.store.comparing import compare_copy
from ledger.store.copying import TableCopied, copy_ledger
from ledger.store.delta_tables import create_tables, table_uri
from ledger.store.ledger_copy import COPY_FILE, LedgerCopy, read_copy
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import TableUpkeep, maintain
from ledger.store.restoring import EPOCHS_APART, Restored, restore_ledger
from ledger.store.session import FLOW_TABLES, RECORDER_TABLES
from ledger.store.snapshots import open_ledger
from tests.support.commands import command, unreachable_flow
from tests.support.histories import examples
from tests.support.killed import Killed, killed_at
from tests.support.ledger_rows import TABLE, WRITER, copied_to, row, watermark
from tests.support.ledgers import claim_of

pytestmark = pytest.mark.long

FLOW_WRITER = "flow:east-to-west"


class Origin:
    """A ledger with a recorder and a flow at work."""

    def __init__(self, path: str, begun: "Origin | None" = None) -> None:
        """`begun`: whose folder has been copied there; None: both are claimed."""
        self.path = path
        self.log = DeltaFactLog(path, SystemClock())
        if begun is None:
            self.recorder = self.log.claim(WRITER, RECORDER_TABLES, {**claim_of("x"), "flow": None})
            self.flow = self.log.claim(FLOW_WRITER, FLOW_TABLES, claim_of("east-to-west"))
            self.rounds = 0
        else:
            self.recorder, self.flow, self.rounds = begun.recorder, begun.flow, begun.rounds

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self.rounds += 1
            self.log.append(self.recorder, TABLE, self.rounds, [watermark(self.rounds)])


@pytest.fixture(autouse=True)
def _of_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few files become one, and few commits a checkpoint."""
    monkeypatch.setattr("ledger.store.merging.FANOUT", 4)
    monkeypatch.setattr("ledger.store.maintenance.CHECKPOINT_AFTER_COMMITS", 8)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> Origin:
    """To be copied."""
    path = copied_to(tmp_path_factory.mktemp("begun"), empty_ledger)
    DeltaTable(table_uri(path, TABLE)).alter.set_table_properties({"delta.checkpointInterval": "8"})
    made = Origin(path)
    made.append(3)
    return made


@pytest.fixture
def origin(begun: Origin, tmp_path: Path) -> Origin:
    return Origin(copied_to(tmp_path, Path(begun.path)), begun)


@pytest.fixture(scope="module")
def copy_of_begun(begun: Origin, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("copied") / "copy"
    copied(begun, to)
    return to


@pytest.fixture
def copy(copy_of_begun: Path, tmp_path: Path) -> Path:
    """Of a ledger that is lost."""
    return Path(shutil.copytree(copy_of_begun, tmp_path / "copy"))


def copied(origin: Origin, to: Path, *, keep_hours: int = 1) -> tuple[LedgerCopy, dict[str, TableCopied]]:
    copy, done = copy_ledger(
        origin.path, str(to), keep_hours=keep_hours, clock=SystemClock(), progress=lambda _line: None
    )
    return copy, {one.table: one for one in done}


def restored(copy: Path, to: Path, lost: str) -> Restored:
    return restore_ledger(
        str(to),
        str(copy),
        accepted_loss_of=lost,
        why=Why("a fire", "T-1"),
        operator="ann",
        host="host:1:1:",
        clock=SystemClock(),
        progress=lambda _line: None,
    )


def cut_of(path: Path | str) -> str:
    return open_ledger(str(path)).now().cut.token


def rows_of(path: Path | str, table: str = TABLE) -> list[int]:
    return [row["round"] for row in open_ledger(str(path)).now().rows(table, [])]


def refusal_of(path: Path) -> str | None:
    """Why nothing is read there; None: it is."""
    try:
        cut_of(path)
    except MirrorLedgerError as error:
        return str(error)
    return None


def files_below(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()
    }


# Copying ------------------------------------------------------------------------------------------


def test_a_copy_answers_as_the_ledger_did_when_it_was_copied(origin: Origin, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    before = cut_of(origin.path)
    copy, done = copied(origin, to)
    origin.append(2)
    assert copy.cut == cut_of(to) == before
    assert rows_of(to) == [1, 2, 3]
    assert done[TABLE].rows == 3
    assert {one.table for one in done.values()} == {table.name for table in TABLES}


def test_what_a_copy_has_is_not_sent_again(origin: Origin, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    copied(origin, to)
    before = files_below(to)
    origin.append()
    _, done = copied(origin, to)
    assert {one.table: one.sent for one in done.values() if one.sent} == {TABLE: 2}, "rows, and an entry"
    after = files_below(to)
    changed = {name for name in before if before[name] != after[name]}
    assert {name for name in changed if not name.startswith("heads/")} == {COPY_FILE}
    assert cut_of(to) == cut_of(origin.path)
    _, again = copied(origin, to)
    assert not any(one.sent for one in again.values())


def test_a_copy_follows_what_maintenance_merged_and_removed(origin: Origin, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    origin.append(12)
    copied(origin, to)
    upkeep = TableUpkeep(origin.path, TABLE, SystemClock(), keep_hours=0)
    assert maintain(upkeep).merged
    origin.append()
    shutil.rmtree(Path(origin.path) / "projections", ignore_errors=True)
    _, done = copied(origin, to, keep_hours=0)
    assert done[TABLE].removed >= 15, "files of rows, and entries of the log"
    assert rows_of(to) == rows_of(origin.path) == list(range(1, 17))
    kept = {name for name in files_below(to) if name.startswith(f"{TABLE}/")}
    copy = read_copy(str(to))
    assert copy is not None
    assert kept == copy.tables[TABLE].files.keys()


def test_superseded_files_stay_for_who_reads_the_former_cut(origin: Origin, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    origin.append(3)
    copied(origin, to)
    reader = open_ledger(str(to)).now()
    assert maintain(TableUpkeep(origin.path, TABLE, SystemClock(), keep_hours=0)).merged
    _, done = copied(origin, to)
    assert done[TABLE].removed == 0
    assert [row["round"] for row in reader.rows(TABLE, [])] == list(range(1, 7))


EVERY = examples(check=83, soak=3)
"""Of so many writes one ends the process."""


@pytest.mark.parametrize("first", [True, False])
def test_a_copy_is_whole_wherever_copying_dies(
    origin: Origin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """It is the former cut or the new one; who died before there was one left nothing to be read."""
    template = tmp_path / "template"
    former = None
    if first:
        template.mkdir()
    else:
        former = copied(origin, template)[0].cut
        origin.append(3)
    new = cut_of(origin.path)
    found: set[str | None] = set()
    step = EVERY if first else examples(check=23, soak=1)
    for write in count(1, step):
        to = tmp_path / f"copy-{write}"
        shutil.copytree(template, to)
        with killed_at(write, monkeypatch):
            try:
                copied(origin, to)
            except Killed:
                pass
            else:
                break
        if first and (refused := refusal_of(to)) is not None:
            assert "whose first copying has not ended" in refused or "is not a ledger" in refused
            found.add(None)
        else:
            found.add(cut_of(to))
        copied(origin, to)
        assert cut_of(to) == new
        assert rows_of(to) == rows_of(origin.path)
        shutil.rmtree(to)
    assert former in found, "None: before the first one has ended nothing can be read"
    assert found <= {former, new}
    assert write > (40 if first else 5)


def test_nothing_is_appended_to_a_copy(origin: Origin, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    copied(origin, to)
    before = files_below(to)
    for act in (
        lambda: DeltaFactLog(str(to), SystemClock()),
        lambda: create_tables(str(to), now_ms=1),
        lambda: copy_ledger(
            str(to), str(tmp_path / "other"), keep_hours=1, clock=SystemClock(), progress=print
        ),
    ):
        with pytest.raises(PreconditionError, match="ledger restore COPY --accept-loss-of"):
            act()
    assert files_below(to) == before


def test_only_a_copy_of_this_ledger_is_brought_up_to_date(
    origin: Origin, tmp_path: Path, empty_ledger: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "ledger"
    create_tables(str(other), now_ms=1)
    with pytest.raises(PreconditionError, match="lies a ledger, which is no copy"):
        copied(origin, other)
    to = tmp_path / "copy"
    copy_ledger(str(other), str(to), keep_hours=1, clock=SystemClock(), progress=print)
    with pytest.raises(PreconditionError, match="Copy to another place"):
        copied(origin, to)
    assert cut_of(to) == cut_of(other)


def test_an_older_ledger_does_not_replace_a_newer_copy(origin: Origin, tmp_path: Path) -> None:
    to, older = tmp_path / "copy", tmp_path / "older"
    shutil.copytree(origin.path, older)
    origin.append()
    copied(origin, to)
    with pytest.raises(PreconditionError, match=r"the copy has what the ledger at .* does not have"):
        copy_ledger(str(older), str(to), keep_hours=1, clock=SystemClock(), progress=print)
    assert cut_of(to) == cut_of(origin.path)


def test_a_comparison_finds_what_differs(origin: Origin, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    origin.append(6)
    copied(origin, to)
    assert maintain(TableUpkeep(origin.path, TABLE, SystemClock(), keep_hours=1)).merged
    origin.append()
    _, same = compare_copy(origin.path, str(to))
    assert not any(one.differs or one.damaged for one in same)
    [found] = [one for one in same if one.table == TABLE]
    assert found.rows == found.ledger_rows == 9
    [*_, file] = sorted((to / TABLE).glob("*.parquet"))
    file.unlink()
    _, damaged = compare_copy(origin.path, str(to))
    assert [(one.table, one.damaged, one.rows) for one in damaged if one.differs] == [(TABLE, 1, None)]


def test_commands_copy_compare_and_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with_ledger = unreachable_flow(tmp_path, capsys)
    assert command(capsys, with_ledger.config, "init").code == 0
    config, to = with_ledger.config, tmp_path / "copy"
    Origin(config.ledger.path).append(2)
    assert command(with_ledger.capture, config, "ledger", "copy", str(to)).code == 0
    checked = command(with_ledger.capture, config, "ledger", "copy", str(to), "--check", "-o", "json")
    assert checked.code == 0, checked.err
    assert {row["table"]: row["rows"] for row in json.loads(checked.out)}[TABLE] == 2
    text = Path(config.file).read_text(encoding="utf-8").replace(config.ledger.path, str(to))
    Path(config.file).write_text(text, encoding="utf-8")
    read = command(with_ledger.capture, config, "query", "flow_status", "--param", "flow=east-to-west")
    assert read.code == 0, read.err
    assert "a copy of ledger" in caplog.text
    for refused in (
        ("stop", "east-to-west"),
        ("maintain",),
        ("init",),
        ("run", "east-to-west"),
        ("record", "east"),
        ("promote", "west", "--over", "east", "--reason", "x"),
        ("apply", "some-plan", "--reason", "x", "--yes"),
        ("undo", "some-apply", "--reason", "x", "--yes"),
    ):
        done = command(with_ledger.capture, config, *refused)
        assert (done.code, done.out) == (5, ""), done.err
        assert "ledger restore COPY --accept-loss-of" in done.err
    [*_, file] = sorted((to / TABLE).glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-1])
    Path(config.file).write_text(text.replace(str(to), config.ledger.path), encoding="utf-8")
    differs = command(with_ledger.capture, config, "ledger", "copy", str(to), "--check")
    assert differs.code == 4
    assert f"is not what was copied, in {TABLE}" in differs.err


# Restoring ----------------------------------------------------------------------------------------


def test_a_ledger_of_a_copy_shuts_out_whoever_was_at_work_on_the_lost_one(
    tmp_path: Path, empty_ledger: Path
) -> None:
    origin = Origin(copied_to(tmp_path, empty_ledger))
    origin.append(3)
    to, made = tmp_path / "copy", tmp_path / "made"
    lost = copied(origin, to)[0].ledger_id
    origin.append(2)
    done = restored(to, made, lost)
    assert rows_of(made) == [1, 2, 3]
    assert done.epochs == {WRITER: EPOCHS_APART, FLOW_WRITER: EPOCHS_APART}
    assert answers.audit_rows(open_ledger(str(made)).now()) == dict.fromkeys(
        answers.audit_rows(open_ledger(str(made)).now()), 0
    )
    [row] = open_ledger(str(made)).now().rows("operations", [("kind", "=", "ledger_restored")])
    assert (row["operator"], row["reason"], row["ticket"]) == ("ann", "a fire", "T-1")
    log = DeltaFactLog(str(made), SystemClock())
    with pytest.raises(ShutOutError):
        log.append(origin.recorder, TABLE, 4, [watermark(4)])
    # One that appends to the same folder as before, by its own handles.
    shutil.rmtree(origin.path)
    made.rename(origin.path)
    with pytest.raises(ShutOutError):
        origin.append()
    with pytest.raises(ShutOutError, match="another ledger lies at"):
        origin.log.append(WriterClaim("flow:unknown-to-the-copy", 1), "offset_syncs", 1, [])
    assert rows_of(origin.path) == [1, 2, 3]


def test_a_restored_ledger_is_copied_on_to_the_same_copy(origin: Origin, tmp_path: Path) -> None:
    """Also where a copying of the lost ledger had died behind the cut."""
    to, made = tmp_path / "copy", tmp_path / "made"
    copied(origin, to)
    origin.append(8)
    left = (to / COPY_FILE).read_bytes()
    copied(origin, to)
    (to / COPY_FILE).write_bytes(left)
    lost = read_copy(str(to))
    assert lost is not None
    restored(to, made, lost.ledger_id)
    assert rows_of(made) == [1, 2, 3]
    again = Origin(str(made))
    again.append(10)
    copy_ledger(str(made), str(to), keep_hours=1, clock=SystemClock(), progress=print)
    assert cut_of(to) == cut_of(made)
    assert len(rows_of(to)) == 13
    assert (
        DeltaTable(table_uri(str(to), TABLE), version=read(to).tables[TABLE].version)
        .to_pyarrow_table()
        .num_rows
    )


def test_after_each_restoration_commits_are_unknown_until_a_recorder_has_read(
    copy: Path, tmp_path: Path
) -> None:
    restored(copy, tmp_path / "made", read(copy).ledger_id)
    made = Origin(str(tmp_path / "made"))
    assert unread_since_restored(open_ledger(made.path).now(), "east") is not None
    listed = row("groups", cluster="east", event="all_listed")
    stamp = {column.name for column in STAMP}
    made.log.append(made.recorder, "groups", 1, [{name: listed[name] for name in listed.keys() - stamp}])
    assert unread_since_restored(open_ledger(made.path).now(), "east") is None
    copied(made, tmp_path / "next copy")
    restored(tmp_path / "next copy", tmp_path / "made again", read(tmp_path / "next copy").ledger_id)
    assert unread_since_restored(open_ledger(str(tmp_path / "made again")).now(), "east") is not None


def read(path: Path) -> LedgerCopy:
    found = read_copy(str(path))
    assert found is not None
    return found


def test_a_restoration_that_dies_anywhere_is_ended_by_the_next(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = read(copy).ledger_id
    for write in count(1, EVERY):
        made = tmp_path / f"made-{write}"
        with killed_at(write, monkeypatch):
            try:
                restored(copy, made, lost)
            except Killed:
                pass
            else:
                break
        if (made / COPY_FILE).exists():
            with pytest.raises(PreconditionError, match="is being restored"):
                open_ledger(str(made)).now()
            with pytest.raises(PreconditionError, match="is being restored"):
                DeltaFactLog(str(made), SystemClock())
            restored(copy, made, lost)
        elif not (made / TABLE).exists():
            restored(copy, made, lost)
        at = open_ledger(str(made)).now()
        assert [row["round"] for row in at.rows(TABLE, [])] == [1, 2, 3], write
        assert len(at.rows("operations", [("kind", "=", "ledger_restored")])) == 1
        last = {row["writer"]: row for row in at.rows("writers", [])}
        assert {row["event"] for row in last.values()} == {"released"}
        assert all(row["writer_epoch"] >= EPOCHS_APART for row in last.values())
        assert not any(answers.audit_rows(at).values())
        shutil.rmtree(made)
    assert write > 100


def test_a_loss_is_accepted_by_the_id_of_the_ledger(copy: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(UsageError, match="--accept-loss-of"):
        restored(copy, made, "another")
    assert not made.exists()


def test_a_ledger_is_restored_to_an_empty_place_alone(origin: Origin, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    lost = copied(origin, to)[0].ledger_id
    before = cut_of(origin.path)
    with pytest.raises(PreconditionError, match="lies a ledger; nothing was restored"):
        restored(to, Path(origin.path), lost)
    with pytest.raises(PreconditionError, match="lies a copy"):
        restored(to, to, lost)
    with pytest.raises(PreconditionError, match="is no copy of a ledger"):
        restored(Path(origin.path), tmp_path / "made", lost)
    assert cut_of(origin.path) == cut_of(to) == before


def test_a_damaged_copy_is_not_restored(copy: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    lost = read(copy).ledger_id
    [*_, file] = sorted((copy / TABLE).glob("*.parquet"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(DamagedLedgerError, match=f"{file.name} is not what was copied"):
        restored(copy, made, lost)
