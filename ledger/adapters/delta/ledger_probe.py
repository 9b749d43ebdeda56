"""Measurements of the ledger for `doctor`: `measurements.LedgerProbe`, without a JVM."""

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ledger.adapters.delta.damage import words_of
from ledger.adapters.delta.file_merging import data_files
from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.maintenance import MAINTAINED_BY, MERGE
from ledger.adapters.delta.snapshots import DeltaLedger, open_ledger
from ledger.adapters.delta.tables import opened_at, table_uri
from ledger.adapters.duck.stamps import steps_back
from ledger.doctor.measurements import TableCommit, TableState
from ledger.domain.operations.directions import Directions
from ledger.domain.tables.cuts import ClockStep
from ledger.errors import LedgerUnavailableError, SetupError, Trouble
from ledger.ports.ledger import FlowPosition
from ledger.schema import TABLES

MOST_COMMITS = 10_000


class DeltaLedgerProbe:
    """Implements `measurements.LedgerProbe`. Constructing it reads nothing."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def folder(self) -> str | None:
        located = urlparse(self.path)
        if located.scheme == "file":
            return unquote(located.path)
        return None if "://" in self.path else self.path

    def table(self, name: str) -> TableState | None:
        uri = table_uri(self.path, name)
        with _reported(uri):
            if not DeltaTable.is_deltatable(uri):
                return None
            table = opened_at(uri)
            commits = tuple(map(_commit, table.history(limit=MOST_COMMITS)))
            return TableState(dict(table.metadata().configuration), commits, tuple(data_files(table)))

    def clock_steps(self) -> Sequence[ClockStep]:
        with _reported(self.path):
            now = DeltaLedger(self.path).now()
            return [step for table in TABLES for step in steps_back(table.name, now.relation(table.name))]

    def cluster_ids(self) -> Mapping[str, str]:
        ledger = open_ledger(self.path)
        with _reported(self.path):
            return DeltaLedgerState(ledger).identities().recorded_ids()

    def positions(self, flow: str) -> Sequence[FlowPosition]:
        return DeltaLedgerState(open_ledger(self.path)).positions(flow)

    def directions(self) -> Directions:
        return DeltaLedgerState(open_ledger(self.path)).directions()

    def exclusive_create(self) -> bool:
        """Link a scratch file to one name twice, as two writers of deltalake would make the same commit."""
        folder = self._local()
        commit = folder / f".mirror-ledger-doctor-{uuid.uuid4().hex}"
        staged = commit.with_suffix(".staged")
        try:
            staged.touch(exist_ok=False)
            os.link(staged, commit)
            os.link(staged, commit)
        except FileExistsError:
            return True
        except OSError as error:
            raise SetupError(f"no file can be linked in {folder}: {error.strerror}") from error
        finally:
            commit.unlink(missing_ok=True)
            staged.unlink(missing_ok=True)
        return False

    def free_bytes(self) -> int:
        folder = self._local()
        try:
            return shutil.disk_usage(folder).free
        except OSError as error:
            raise SetupError(f"{folder} cannot be examined: {error.strerror}") from error

    def _local(self) -> Path:
        """The ledger's folder; before it is made, the folder above that there is."""
        if self.folder is None:
            raise SetupError(f"{self.path} is not a local folder; nothing was measured")
        folder = Path(self.folder).absolute()
        return next(found for found in (folder, *folder.parents) if found.is_dir())


def _commit(entry: Mapping[str, Any]) -> TableCommit:
    parameters = entry.get("operationParameters") or {}
    return TableCommit(
        version=int(entry["version"]),
        operation=str(entry.get("operation", "unnamed")),
        overwrites=str(parameters.get("mode", "")).lower() == "overwrite",
        committed_at_ms=int(entry["timestamp"]),
        merges=entry.get("operation") == "OPTIMIZE" or entry.get(MAINTAINED_BY) == MERGE,
    )


@contextmanager
def _reported(where: str) -> Iterator[None]:
    """What the store or the Delta library refuses, as an error of ours."""
    try:
        yield
    except (DeltaError, OSError, LedgerUnavailableError) as error:
        raise SetupError(f"{where} cannot be read: {words_of(error)}", trouble=Trouble.LEDGER) from error
