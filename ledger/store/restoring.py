"""Makes a ledger of a copy when the first one is lost.

The copy stays as it is: its files are sent to where the ledger is to be, as of its cut. Then every table is marked, so
that it is another ledger's for whoever had claimed a role in the lost one. Every writer that the copy knows is given an
epoch that the lost ledger cannot have reached, claimed and released: so nothing of an earlier epoch is appended. Last
comes the row that says who restored it and why.

Until all of that is there, the place says that a ledger is being restored, and nobody reads or appends. Whoever dies in
between types the same again: every step does what is lacking.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ledger.clock import Clock
from ledger.errors import DamagedLedgerError, PreconditionError, UsageError
from ledger.facts.operations import LedgerRestored, Why
from ledger.facts.roles import APPLY_WRITER, writer_of
from ledger.facts.syncs import WriterEvent
from ledger.facts.tables import OPERATIONS, STAMP, TABLES, WRITERS, Row
from ledger.store.copying import TableCopied, require_parent
from ledger.store.damage import LOG
from ledger.store.delta_tables import mark_restored
from ledger.store.ledger_copy import (
    COPY_FILE,
    LedgerCopy,
    Restoration,
    being_restored,
    copy_at,
    read_copy,
    write_copy,
)
from ledger.store.log import DeltaFactLog
from ledger.store.places import Place, send
from ledger.store.session import APPLY_TABLES, FLOW_TABLES, RECORDER_TABLES, OperatorOperations, random_id
from ledger.store.snapshots import DeltaLedger
from ledger.store.sql import connected, register

EPOCHS_APART = 1 << 20
"""A restored ledger begins at a multiple of it. A writer that claims an epoch each second reaches the next one after
twelve days: no ledger may be that much ahead of its copy."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restoration came to: the id of its operation, and by writer the epoch that it was given."""

    operation_id: str
    copy: LedgerCopy
    tables: list[TableCopied]
    epochs: dict[str, int]


def restore_ledger(
    path: str,
    source: str,
    *,
    accepted_loss_of: str,
    why: Why,
    operator: str,
    host: str,
    clock: Clock,
    progress: Callable[[str], None],
) -> Restored:
    """Make a ledger at `path` of the copy at `source`, or continue where a process died that did so.

    `accepted_loss_of`: the id of the ledger that is lost, which the copy has to be of. Raises `UsageError` where it is
    of another one, `PreconditionError` where anything but this restoration is at `path` or no copy at `source`, and
    `LedgerUnavailableError` where either place cannot be read or written, or the copy is not what was copied.
    """
    copy = copy_at(source)
    if copy is None:
        raise PreconditionError(f"{source} is no copy of a ledger; nothing was restored")
    if accepted_loss_of != copy.ledger_id:
        raise UsageError(
            f"{source} is {copy.words}; the loss of {accepted_loss_of} was accepted; nothing was restored. Where that "
            f"ledger is lost: --accept-loss-of {copy.ledger_id}"
        )
    target = Place(path)
    begun = _begun(target, source, copy)
    restoration = begun.restoration
    assert restoration is not None, "it was begun"
    with being_restored(path):
        done = _send(source, copy, target, progress)
        for name in copy.tables:
            mark_restored(path, name, restoration.operation_id, now_ms=clock.now_ms())
        log = DeltaFactLog(path, clock)
        epochs = _raise_epochs(path, log, restoration.epoch, host)
        _record(path, log, copy, restoration, why, operator)
    target.delete(COPY_FILE)
    return Restored(restoration.operation_id, copy, done, epochs)


def _begun(target: Place, source: str, copy: LedgerCopy) -> LedgerCopy:
    """What the place says of the restoration, after it was begun; of one that died what that had begun."""
    found = read_copy(target.uri)
    if found is not None and found.restoration is not None:
        if (found.ledger_id, found.cut) != (copy.ledger_id, copy.cut):
            raise PreconditionError(
                f"at {target.uri} a ledger is being restored from {found.words}, and this is {copy.words}; nothing was "
                "done. Empty that place, and restore again"
            )
        return found
    if found is not None or any(target.sizes(f"{table.name}/{LOG}") for table in TABLES):
        what = "a ledger" if found is None else found.words
        raise PreconditionError(
            f"at {target.uri} lies {what}; nothing was restored. Set [ledger] path to an empty place"
        )
    require_parent(target.uri, "the ledger")
    begun = replace(copy, superseded={}, restoration=Restoration(random_id(), _first_epoch(source)))
    write_copy(target, begun)
    return begun


def _first_epoch(source: str) -> int:
    """The first multiple of `EPOCHS_APART` above every epoch that the copy knows."""
    last = max((row["epoch"] for row in _writers(source)), default=0)
    return (int(last) // EPOCHS_APART + 1) * EPOCHS_APART


def _writers(path: str) -> list[Row]:
    """Every writer with the last epoch that it claimed, and whether it released that."""
    with connected() as connection:
        register(connection, "wanted", DeltaLedger(path).now((WRITERS.name,)).relation(WRITERS.name))
        found = connection.execute(_WRITERS_CLAIMS).fetchall()
    return [
        {"writer": writer, "epoch": epoch, "is_released": is_released} for writer, epoch, is_released in found
    ]


_WRITERS_CLAIMS = f"""
select writer, max(writer_epoch), arg_max(event, {{'epoch': writer_epoch, 'round': round}}) = '{WriterEvent.RELEASED}'
from wanted
where writer_epoch > 0
group by writer
order by writer
"""


# Files --------------------------------------------------------------------------------------------


def _send(source: str, copy: LedgerCopy, target: Place, progress: Callable[[str], None]) -> list[TableCopied]:
    """All files of the copy that are lacking, each compared with what was copied."""
    done = []
    for name, table in copy.tables.items():
        there = target.sizes_of_table(name)
        sent = sent_bytes = 0
        for file, known in table.files.items():
            if there.get(file) == known.size and target.digest(file) == known.sha256:
                continue
            if send(Place(source), file, target) != known.sha256:
                raise DamagedLedgerError(
                    f"{source}/{file} is not what was copied: its SHA-256 is another one than {COPY_FILE} has; nothing "
                    "was restored. Put that file back, or restore from another copy"
                )
            sent, sent_bytes = sent + 1, sent_bytes + known.size
        done.append(TableCopied(name, table.version, table.rows, len(table.files), sent, sent_bytes))
        progress(f"{name}: {sent} of {len(table.files)} files sent")
    return done


# Writers ------------------------------------------------------------------------------------------


_STAMP = frozenset(column.name for column in STAMP)


def _raise_epochs(path: str, log: DeltaFactLog, first_epoch: int, host: str) -> dict[str, int]:
    """Claim and release an epoch from `first_epoch` on for every writer; returns the last one of each.

    It is claimed with what the writer's last claim said, but for the host: whoever followed that process has nobody to
    follow.
    """
    epochs = {}
    for found in _writers(path):
        writer = str(found["writer"])
        if found["epoch"] >= first_epoch and found["is_released"]:
            epochs[writer] = int(found["epoch"])
            continue
        last = _last_claim(path, writer)
        row = {
            **{name: value for name, value in last.items() if name not in _STAMP},
            "host": host,
            "shut_out": None,
        }
        claim = log.claim(
            writer, _tables_of(writer), {**row, "event": str(WriterEvent.CLAIMED)}, least=first_epoch
        )
        log.append(claim, WRITERS.name, 1, [{**row, "event": str(WriterEvent.RELEASED)}])
        epochs[writer] = claim.epoch
    return epochs


def _last_claim(path: str, writer: str) -> Row:
    rows = (
        DeltaLedger(path)
        .now((WRITERS.name,))
        .rows(WRITERS.name, [("writer", "=", writer), ("event", "=", "claimed")])
    )
    return rows[-1]


def _tables_of(writer: str) -> Sequence[str]:
    if writer == APPLY_WRITER:
        return APPLY_TABLES
    return FLOW_TABLES if writer == writer_of(writer.partition(":")[2]) else RECORDER_TABLES


# The record ---------------------------------------------------------------------------------------


def _record(
    path: str, log: DeltaFactLog, copy: LedgerCopy, restoration: Restoration, why: Why, operator: str
) -> None:
    """Who restored the ledger and why; once, wherever a process died."""
    if (
        DeltaLedger(path)
        .now((OPERATIONS.name,))
        .rows(OPERATIONS.name, [("operation_id", "=", restoration.operation_id)])
    ):
        return
    content = LedgerRestored(
        ledger_id=copy.ledger_id,
        origin=copy.origin,
        cut=str(copy.cut),
        cut_at_ms=int(copy.cut_at_ms or 0),
        first_epoch=restoration.epoch,
    )
    OperatorOperations(log, operator=operator).record_parts(
        [content], replace(why, operation_id=restoration.operation_id)
    )
