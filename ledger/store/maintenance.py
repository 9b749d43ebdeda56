"""The upkeep of one table with deltalake: small files merged, what merging superseded removed, the log kept short.

A merge writes its files first and then commits them in place of the merged ones, as the version right after one that
still has all of these. So of two merges of a file one is committed, and whatever else comes in between makes a merge
try again or give up, never an append. A process that dies leaves files that no version names: nothing reads them.

No row is added, changed or removed, so no answer changes (`ledger/PROTOCOL.md`, "Maintenance").
"""

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from ledger.clock import Clock, SystemClock
from ledger.config.mirror import LedgerConfig
from ledger.errors import LedgerUnavailableError, MirrorLedgerError
from ledger.facts.tables import TABLES
from ledger.store.behind import read_behind
from ledger.store.damage import (
    LAST_CHECKPOINT,
    LOG,
    Damage,
    damaged,
    damages_of,
    make_checkpoint,
    reported,
    set_aside,
    sync_entries,
)
from ledger.store.delta_tables import newest_version, opened_at, settle_properties, table_uri
from ledger.store.merging import (
    NO_HOOKS,
    DataFile,
    Merge,
    TableFolder,
    WrittenFile,
    data_files,
    due_merges,
    write_merged,
)
from ledger.store.projections import PROJECTED, Projection

log = logging.getLogger(__name__)

# Maintenance --------------------------------------------------------------------------------------


MAINTAINED_BY, MERGE, REPAIR, ARCHIVE = "mirrorLedger.maintenance", "merge", "repair", "archive"
"""Key and values of the commit info by which it is known in the history of a table that files were merged, given up as
damaged, or that rows of a period have left it."""
STRAY_HOURS = 720
"""Files that no version names may be of a writer that stands still between its file and its commit."""
CHECKPOINT_AFTER_COMMITS = 50
_COMMIT_ATTEMPTS = 10
_ATTEMPTS_APART_S = 0.01


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What was done to a table, or would be: `merged` files became `written` ones, `removed` files were deleted.

    `files`: of the newest version, when it began. `given_up`: merges that somebody else was faster with, or that
    commits of others kept from being committed; they are found again. `log_entries`: removed; None: not known
    before it is done.
    """

    table: str
    files: int
    merged: int = 0
    merged_bytes: int = 0
    written: int = 0
    written_bytes: int = 0
    given_up: int = 0
    removed: int = 0
    log_entries: int | None = 0


class TableUpkeep:
    """Maintains one table; `keep_hours`: for how long superseded files and entries of the log stay.

    Every method raises `LedgerUnavailableError` when the table cannot be read or written.
    """

    def __init__(self, path: str, table: str, clock: Clock, *, keep_hours: int) -> None:
        self.table = table
        self._path = path
        self._uri = table_uri(path, table)
        self._clock = clock
        self._keep_hours = keep_hours
        self._folder = TableFolder(self._uri)
        self._projection = Projection(path, table)

    def planned(self) -> Upkeep:
        """What would be done now."""
        files, merges = self.due()
        with _reported(self._uri):
            removable = self._removable(self._opened())
        return Upkeep(
            self.table,
            files=len(files),
            merged=sum(len(merge.files) for merge in merges),
            merged_bytes=sum(merge.size_bytes for merge in merges),
            removed=len(removable),
            log_entries=None,
        )

    def due(self) -> tuple[list[DataFile], list[Merge]]:
        """The files of the newest version, and what is to be merged of them."""
        with _reported(self._uri):
            files = data_files(self._opened())
        return files, due_merges(files, now_ms=self._clock.now_ms())

    def merge(self, *, ended: Callable[[], bool] = lambda: False) -> Upkeep:
        """Merge what is due, one merge after the other, until all is done or it is to end."""
        files, merges = self.due()
        done = Upkeep(self.table, len(files))
        for merge in merges:
            if ended():
                break
            done = self.committed(done, merge, self.written(merge))
        return done

    def written(self, merge: Merge) -> list[WrittenFile] | None:
        """The files of a merge, which no version names yet; None: somebody else has merged and removed its files."""
        try:
            with _reported(self._uri):
                return write_merged(self._uri, self.table, merge)
        except LedgerUnavailableError:
            with _reported(self._uri):
                if {file.path for file in merge.files} <= _paths(opened_at(self._uri)):
                    raise
            return None

    def committed(self, done: Upkeep, merge: Merge, written: Sequence[WrittenFile] | None) -> Upkeep:
        """What was done so far, and this merge, after it was put in place of its files."""
        if written is None or not self.put_in_place(merge.files, written):
            log.debug("%s: a merge of %d files was given up", self.table, len(merge.files))
            return replace(done, given_up=done.given_up + 1)
        return replace(
            done,
            merged=done.merged + len(merge.files),
            merged_bytes=done.merged_bytes + merge.size_bytes,
            written=done.written + len(written),
            written_bytes=done.written_bytes + sum(file.size_bytes for file in written),
        )

    def put_in_place(
        self, files: Sequence[DataFile], written: Sequence[WrittenFile], what: str = MERGE
    ) -> bool:
        """Whether the written files are in the table in place of others, all at once.

        deltalake would take another merge of the same files for a mere append, so no commit may come in between:
        it is made as the next version, or not at all. Where the answer to a commit was lost, the table tells.
        """
        merged = {file.path for file in files}
        with _reported(self._uri):
            for attempt in range(_COMMIT_ATTEMPTS):
                opened = opened_at(self._uri)
                active = _paths(opened)
                if written and {file.path for file in written} <= active:
                    return True
                if not merged <= active:
                    return False
                try:
                    self._put(opened, files, written, what)
                except DeltaError as error:
                    log.debug("%s: version %d: %s", self.table, opened.version() + 1, error)
                    time.sleep(attempt * _ATTEMPTS_APART_S)
                else:
                    return True
        return False

    def _put(
        self, opened: DeltaTable, merged: Sequence[DataFile], written: Sequence[WrittenFile], what: str
    ) -> None:
        now_ms = self._clock.now_ms()
        opened.create_write_transaction(
            [
                *(
                    AddAction(file.path, file.size_bytes, {}, now_ms, False, file.statistics)
                    for file in written
                ),
                *(RemoveAction(file.path, False, now_ms, file.size_bytes, {}) for file in merged),
            ],
            "append",
            opened.schema(),
            commit_properties=CommitProperties(custom_metadata={MAINTAINED_BY: what}, max_commit_retries=0),
            post_commithook_properties=NO_HOOKS,
        )
        sync_entries(self._uri, after=opened.version(), until=opened.version() + 1)

    def project_when_due(self) -> bool:
        """Extend the table's projection when answers would read too much without; returns whether that was so."""
        if self.table not in PROJECTED:
            return False
        with _reported(self._uri):
            return self._projection.extend_when_due(self._opened(), now_ms=self._clock.now_ms())

    def rebuild_when_unusable(self) -> None:
        """Make the table's projection again where it does not account for the rows of the newest version."""
        if self.table not in PROJECTED:
            return
        with _reported(self._uri):
            opened = self._opened()
            noted = self._projection.noted(opened)
            if noted is None:
                return
            with read_behind(opened, self.table, noted) as behind:
                is_usable = behind is not None
        if not is_usable:
            self.rebuild()

    def rebuild(self) -> bool:
        """Drop the table's projection and make it from the facts; returns whether it has one."""
        if self.table not in PROJECTED:
            return False
        with _reported(self._uri):
            self._projection.drop()
            return self._projection.extend_when_due(self._opened(), now_ms=self._clock.now_ms(), least_rows=1)

    def clean(self, *, ended: Callable[[], bool] = lambda: False) -> tuple[int, int | None]:
        """Remove what is old enough, and make a checkpoint; returns how many files and entries of the log went.

        Superseded files go first: checkpoints forget them once the table has the properties of its upkeep. Entries go
        before the checkpoint is made: a reader that has just read which checkpoint is the last one finds it.
        """
        with _reported(self._uri):
            opened, removed = self._opened(), 0
            for path in self._removable(opened):
                if ended():
                    break
                self._folder.delete(path)
                removed += 1
            now_ms = self._clock.now_ms()
            if settle_properties(self._path, self.table, keep_hours=self._keep_hours, now_ms=now_ms):
                opened = opened_at(self._uri)
            before = self._log_entries()
            opened.cleanup_metadata()
            after = self._log_entries()
            if opened.version() - self._last_checkpoint() >= CHECKPOINT_AFTER_COMMITS:
                make_checkpoint(opened, self._uri)
        return removed, None if before is None or after is None else before - after

    def damages(self) -> list[Damage]:
        """What is damaged of the table; every file of it is read."""
        with _reported(self._uri):
            return damages_of(self._uri)

    def repair(self) -> list[Damage]:
        """Continue without what is damaged; returns what that was. Files stay where they are, or beside their place.

        Raises `DamagedLedgerError` where the first entry is: it says what the table is.
        """
        with _reported(self._uri):
            found = damages_of(self._uri)
            if any(one.version == 0 for one in found):
                raise damaged(found, "nothing was repaired: the first entry of a log can only be put back")
            of_log = [one for one in found if one.rows is None]
            for one in of_log:
                set_aside(one)
            if of_log:
                make_checkpoint(opened_at(self._uri), self._uri)
            files = [one for one in damages_of(self._uri) if one.rows is not None]
            if files:
                self._give_up(files)
        return [*of_log, *files]

    def _give_up(self, files: Sequence[Damage]) -> None:
        """A version without these files; rows are removed by no other commit."""
        now_ms, opened = self._clock.now_ms(), opened_at(self._uri)
        opened.create_write_transaction(
            [
                RemoveAction(one.rows["path"], False, now_ms, one.rows["size"], {})
                for one in files
                if one.rows
            ],
            "append",
            opened.schema(),
            commit_properties=CommitProperties(custom_metadata={MAINTAINED_BY: REPAIR}),
            post_commithook_properties=NO_HOOKS,
        )
        before = opened.version()
        opened.update_incremental()
        sync_entries(self._uri, after=before, until=opened.version())

    def _opened(self) -> DeltaTable:
        return newest_version(self._path, self.table)

    def _removable(self, opened: DeltaTable) -> list[str]:
        """Superseded long enough ago; and what no version names and nobody can still be about to commit."""
        superseded = opened.vacuum(self._keep_hours, enforce_retention_duration=False)
        hours = max(STRAY_HOURS, self._keep_hours)
        stray = opened.vacuum(hours, enforce_retention_duration=False, full=True)
        return sorted({*superseded, *stray})

    def _last_checkpoint(self) -> int:
        """The version of the last checkpoint; that before the first one where none is named."""
        try:
            return int(json.loads(self._folder.text(LAST_CHECKPOINT))["version"])
        except (OSError, ValueError, KeyError):
            return -1

    def _log_entries(self) -> int | None:
        """How many commits the log still has; None: of a store, whose folders nobody lists for that."""
        if self._folder.local is None:
            return None
        return sum(1 for file in (self._folder.local / LOG).iterdir() if file.suffix == ".json")


Merging = Callable[[TableUpkeep], Upkeep]
_MOST_PASSES = 20


def maintain(
    upkeep: TableUpkeep,
    *,
    merging: Merging = TableUpkeep.merge,
) -> Upkeep:
    """All that is due for a table, until nothing is left to merge; `merging` carries out what is due at one time."""
    done = merging(upkeep)
    for _ in range(_MOST_PASSES):
        if not (more := merging(upkeep)).merged:
            break
        done = _both(done, more)
    upkeep.project_when_due()
    removed, log_entries = upkeep.clean()
    return replace(done, removed=removed, log_entries=log_entries)


def _both(first: Upkeep, then: Upkeep) -> Upkeep:
    """What two passes did; what the first one wrote the second one may have merged again."""
    return replace(
        first,
        merged=first.merged + then.merged,
        merged_bytes=first.merged_bytes + then.merged_bytes,
        written=first.written + then.written,
        written_bytes=first.written_bytes + then.written_bytes,
        given_up=first.given_up + then.given_up,
    )


def _paths(table: DeltaTable) -> set[str]:
    return {file.path for file in data_files(table)}


def _reported(uri: str) -> AbstractContextManager[None]:
    """What the store or a library refuses, as an error of ours."""
    return reported(f"{uri} could not be maintained", uri, otherwise="what is recorded stays as it is")


# Background maintenance ---------------------------------------------------------------------------
# Maintenance beside a driver or a recorder: in a thread of its own, in no round's way, and never the end of
# a run.
#
# Several processes may do it for one ledger. They begin at times of their own, so mostly one of them finds
# something to do; where two merge the same files, one merge is committed.


PASS_S = 60.0
"""A writer of a commit every five seconds leaves twelve small files in that time: one merge."""
CLEAN_S = 900.0
"""A quarter of the shortest time that superseded files stay."""
_END_S = 30.0
"""A merge is bounded (`table_upkeep`), and no other one is begun once the run ends."""


class BackgroundMaintenance:
    """A context in which tables are maintained; leaving it waits for the merge under way.

    What fails is logged once until it works again. `doctor` and `status` tell when files pile up.

    `anchoring`: writes the heads of the ledger's links down outside of it, as often as files are cleaned up; None:
    there is no anchor.
    """

    def __init__(
        self,
        upkeeps: Sequence[TableUpkeep],
        *,
        anchoring: Callable[[], object] | None = None,
        pass_s: float = PASS_S,
        clean_s: float = CLEAN_S,
    ) -> None:
        self._upkeeps = upkeeps
        self._anchoring = anchoring
        self._pass_s = pass_s
        self._clean_s = clean_s
        self._ended = threading.Event()
        self._failing: set[str] = set()
        self._cleaned: dict[str, float] = {}
        self._anchored: float | None = None
        self._thread = threading.Thread(target=self._work, name="maintenance", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ended.set()
        self._thread.join(_END_S)
        if self._thread.is_alive():
            log.warning("maintenance of the ledger did not end within %.0f s; nothing depends on it", _END_S)

    def _work(self) -> None:
        wait_s = random.uniform(0, self._pass_s)
        while not self._ended.wait(wait_s):
            for upkeep in self._upkeeps:
                if self._ended.is_set():
                    return
                self._try(
                    f"the ledger's table {upkeep.table} is not maintained", partial(self._maintain, upkeep)
                )
            now = time.monotonic()
            is_due = self._anchored is None or now - self._anchored >= self._clean_s
            if self._anchoring is not None and is_due and not self._ended.is_set():
                self._anchored = now
                self._try("the heads of the ledger's links are not written to the anchor", self._anchoring)
            wait_s = self._pass_s

    def _try(self, failing: str, work: Callable[[], object]) -> None:
        try:
            work()
        except (MirrorLedgerError, OSError) as error:
            self._say_once(failing, str(error))
        except Exception as error:  # nothing that goes wrong here may end the run beside it
            if failing not in self._failing:
                log.exception("maintenance of the ledger met something that nobody foresaw")
            self._say_once(failing, repr(error))
        else:
            self._failing.discard(failing)

    def _maintain(self, upkeep: TableUpkeep) -> None:
        done = upkeep.merge(ended=self._ended.is_set)
        if done.merged:
            log.debug("%s: %d files merged into %d", upkeep.table, done.merged, done.written)
        if not self._ended.is_set():
            upkeep.project_when_due()
        cleaned = self._cleaned.get(upkeep.table)
        if not self._ended.is_set() and (cleaned is None or time.monotonic() - cleaned >= self._clean_s):
            removed, entries = upkeep.clean(ended=self._ended.is_set)
            self._cleaned[upkeep.table] = time.monotonic()
            log.debug(
                "%s: %d superseded files removed, %s entries of the log", upkeep.table, removed, entries
            )

    def _say_once(self, failing: str, reason: str) -> None:
        if failing not in self._failing:
            self._failing.add(failing)
            log.warning("%(failing)s for now: %(cause)s", {"failing": failing, "cause": reason})


# Upkeeps ------------------------------------------------------------------------------------------
# The upkeep of a whole ledger, by what its configuration says.


def table_upkeeps(ledger: LedgerConfig) -> list[TableUpkeep]:
    """That of every table."""
    return [
        TableUpkeep(ledger.path, table.name, SystemClock(), keep_hours=ledger.keep_superseded_hours)
        for table in TABLES
    ]
