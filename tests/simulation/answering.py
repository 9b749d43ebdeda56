"""What the ledger of a simulation says to a commit, by the algebra of one flow's offset maps."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple

from ledger.facts.rows import recorded_sync
from ledger.facts.syncs import Checkpoint
from tests.simulation.accounts import Row
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.algebra.maps import OffsetMap
from tests.support.algebra.translation import Commit, KnownMap, SeenEnd, translate_commit, truncations_of


class Answering:
    """For one source partition of a flow; `rows`: its offset syncs, oldest first."""

    def __init__(self, ledger: MemoryLedger, flow: str, rows: Sequence[Row]) -> None:
        self._ledger = ledger
        self._flow = flow
        self._source_cluster, self._target_cluster = rows[-1]["source_cluster"], rows[-1]["target_cluster"]
        by_topic_id: dict[str, list[Row]] = {}
        for row in rows:
            by_topic_id.setdefault(row["source_topic_id"], []).append(row)
        self._known = [self._known_map(found) for found in by_topic_id.values()]

    def of_offset(self, topic_id: str, offset: int, leader_epoch: int | None) -> int | None:
        """For a commit that was made just now on records of a leader epoch."""
        commit = Commit(offset=offset, topic_id=topic_id, leader_epoch=leader_epoch)
        return translate_commit(self._known, commit).target_offset

    def of_checkpoint(self, commit: Checkpoint) -> int | None:
        """For what a group had committed when it was recorded last."""
        assert commit.committed_offset is not None
        made = Commit(
            offset=commit.committed_offset,
            topic_id=commit.topic_id,
            leader_epoch=commit.leader_epoch,
            made_after_ms=self._made_after_ms(commit),
        )
        return translate_commit(self._known, made).target_offset

    # -- what else the ledger knows --------------------------------------------------------------

    def _known_map(self, rows: Sequence[Row]) -> KnownMap:
        offset_map = OffsetMap.from_syncs(self._flow, [recorded_sync(row).sync for row in rows])
        seen = self._last_seen(rows[-1]["target_cluster"], offset_map)
        return KnownMap(
            offset_map=offset_map,
            target_log_start=None if seen is None else int(seen["log_start"]),
            is_source_written=self._is_source_written(offset_map),
            is_other_incarnation=seen is not None and seen["topic_id"] != offset_map.target.topic_id,
            truncations=truncations_of(
                ((recorded_sync(row).sync, row["recorded_at_ms"]) for row in rows),
                self._seen_ends(offset_map),
            ),
        )

    def _seen_ends(self, offset_map: OffsetMap) -> Iterator[SeenEnd]:
        source = offset_map.source
        for row in self._ledger.rows("high_watermarks"):
            place = (row["topic"], row["topic_id"], row["partition"])
            is_here = row["cluster"] == self._source_cluster and place == astuple(source)
            if is_here and row["leader_epoch"] is not None:
                yield SeenEnd(row["leader_epoch"], row["high_watermark"])

    def _is_source_written(self, offset_map: OffsetMap) -> bool:
        is_written = any(
            row["flow"] != self._flow
            and (row["target_cluster"], row["target_topic"])
            == (self._source_cluster, offset_map.source.topic)
            for row in self._ledger.rows("offset_syncs")
        )
        return is_written and not self._relays()

    def _relays(self) -> bool:
        """By the configuration that the flow recorded last."""
        configured = [
            json.loads(row["content"])["configuration"]["relay"]
            for row in self._ledger.rows("operations")
            if row["flow"] == self._flow and row["kind"] == "configuration_changed"
        ]
        return bool(configured and configured[-1])

    def _last_seen(self, cluster: str, offset_map: OffsetMap) -> Mapping[str, int | str] | None:
        """The target's last recorded ends, of whichever life."""
        at = (cluster, offset_map.target.topic, offset_map.target.partition)
        seen = [
            row
            for row in self._ledger.rows("high_watermarks")
            if (row["cluster"], row["topic"], row["partition"]) == at
        ]
        return seen[-1] if seen else None

    def _made_after_ms(self, commit: Checkpoint) -> int | None:
        """When the group was last seen with another offset, or with none."""
        at = (commit.cluster, commit.group_id, commit.topic, commit.partition)
        others = [
            row["read_at_ms"]
            for row in self._ledger.rows("checkpoints")
            if (row["cluster"], row["group_id"], row["topic"], row["partition"]) == at
            and (row["committed_offset"], row["topic_id"]) != (commit.committed_offset, commit.topic_id)
        ]
        return max(others, default=None)
