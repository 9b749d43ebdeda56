"""What the ledger of a simulation says to a commit, by the algebra of one flow's offset maps."""

from collections.abc import Sequence

from ledger.adapters.memory.tables import MemoryLedger
from ledger.domain.facts import Checkpoint
from ledger.domain.offsets import OffsetMap, translate_commit
from ledger.mirror.sync_rows import recorded_sync
from tests.simulation.accounts import Row


class Answering:
    """For one source partition of a flow; `rows`: its offset syncs, oldest first."""

    def __init__(self, ledger: MemoryLedger, flow: str, rows: Sequence[Row]) -> None:
        self._ledger = ledger
        by_topic_id: dict[str, list[Row]] = {}
        for row in rows:
            by_topic_id.setdefault(row["source_topic_id"], []).append(row)
        self._maps = [
            OffsetMap.from_syncs(flow, [recorded_sync(row).sync for row in found])
            for found in by_topic_id.values()
        ]

    def of_offset(self, topic_id: str, offset: int, leader_epoch: int | None) -> int | None:
        """For a commit that was made just now on records of a leader epoch."""
        assert offset == 0 or leader_epoch is not None
        return translate_commit(self._maps, topic_id, offset).target_offset

    def of_checkpoint(self, commit: Checkpoint) -> int | None:
        """For what a group had committed when it was recorded last."""
        assert commit.committed_offset is not None
        return translate_commit(self._maps, commit.topic_id, commit.committed_offset).target_offset
