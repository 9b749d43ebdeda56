"""Last rows of a table, noted so that a start need not read all of it (`domain.last_rows`)."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ledger.domain.operations.content import OperationContent
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.tables.last_rows import LastPlace, Noted


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRows(OperationContent):
    """Of one table: its Delta id, how many rows it had, by writer up to where, and the last ones of each combination.

    `until`: epoch, round, and the latest `recorded_at_ms` of all rows of the writer. `settled_ms`: as `Noted` has it.
    `last`: by column the values, as JSON that is deflated (zlib) and written in base64url without padding.
    """

    table_id: str
    of_each: Sequence[str]
    rows: int
    until: Mapping[str, Sequence[int]]
    settled_ms: int
    last: str

    @classmethod
    def of(
        cls, table_id: str, of_each: Sequence[str], noted: Noted, last: Mapping[str, Sequence[Any]]
    ) -> Self:
        """`last`: by column the values of the rows."""
        until = {writer: [at.epoch, at.round, at.latest_ms] for writer, at in sorted(noted.until.items())}
        return cls(
            table_id=table_id,
            of_each=list(of_each),
            rows=noted.rows,
            until=until,
            settled_ms=noted.settled_ms,
            last=_packed(last),
        )

    @property
    def noted(self) -> Noted:
        """Raises `TypeError`, `ValueError` or `InvalidValueError` where it says nothing that can be."""
        until = {writer: LastPlace(*map(int, at)) for writer, at in self.until.items()}
        return Noted(int(self.rows), until, int(self.settled_ms))

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The last rows; raises `ValueError`, `zlib.error` or `TypeError` where they are not whole."""
        text = zlib.decompress(base64.b64decode(self.last + "=" * (-len(self.last) % 4), b"-_", True))
        return dict(json.loads(text))


def _packed(columns: Mapping[str, Sequence[Any]]) -> str:
    text = json.dumps(dict(columns), separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), level=9)).decode().rstrip("=")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOffsetSyncs(LastRows):
    """Those of `offset_syncs`."""

    kind: ClassVar = OperationKind.LAST_OFFSET_SYNCS


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpoints(LastRows):
    """Those of `checkpoints`."""

    kind: ClassVar = OperationKind.LAST_CHECKPOINTS


@dataclass(frozen=True, slots=True, kw_only=True)
class LastShareOffsets(LastRows):
    """Those of `share_offsets`."""

    kind: ClassVar = OperationKind.LAST_SHARE_OFFSETS


@dataclass(frozen=True, slots=True, kw_only=True)
class LastHighWatermarks(LastRows):
    """Those of `high_watermarks`."""

    kind: ClassVar = OperationKind.LAST_HIGH_WATERMARKS


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWriters(LastRows):
    """Those of `writers`."""

    kind: ClassVar = OperationKind.LAST_WRITERS


LAST_ROWS: Mapping[str, type[LastRows]] = {
    "offset_syncs": LastOffsetSyncs,
    "checkpoints": LastCheckpoints,
    "share_offsets": LastShareOffsets,
    "high_watermarks": LastHighWatermarks,
    "writers": LastWriters,
}
"""By table."""
