"""Share-partition start offsets as commits: who is done with all below one has read all below it.

Nothing that a share group has acknowledged behind its start offset is known, so what is concluded from it may repeat
records and never skips one.
"""

import pyarrow as pa

from ledger.adapters.arrow_schema import arrow_rows
from ledger.adapters.duck.engine import Snapshot, connect
from ledger.domain.groups import SHARE
from ledger.schema import CHECKPOINTS, SHARE_OFFSETS


def share_commits(snapshot: Snapshot) -> pa.Table:
    """Rows of `checkpoints`: one for each of `share_offsets`, but for partitions that a group has not begun."""
    with connect(snapshot, {}, (SHARE_OFFSETS.name,)) as connection:
        found = connection.sql(
            "select * from share_offsets where start_offset is not null or absence is not null"
        ).to_arrow_table()
    return arrow_rows(CHECKPOINTS, [_commit(row) for row in found.to_pylist()])


def _commit(row: dict[str, object]) -> dict[str, object]:
    known = {name: row[name] for name in SHARE_OFFSETS.column_names if name in CHECKPOINTS.column_names}
    unknown = dict.fromkeys(CHECKPOINTS.column_names)
    return {**unknown, **known, "group_type": SHARE, "committed_offset": row["start_offset"]}
