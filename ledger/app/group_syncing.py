"""Beside a driver of a flow with `sync_groups`: commits at the target for groups that read at the source."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import DeltaSnapshot, open_ledger
from ledger.adapters.delta.tables import newest_version
from ledger.adapters.duck import between_clusters, engine
from ledger.adapters.duck.group_commits import commits_of_groups, last_group_syncs, left_offsets
from ledger.adapters.kafka.admin.cluster_admin import KafkaAdmin
from ledger.adapters.system import SystemClock
from ledger.app.between_clusters import Way, commits_beside_outputs, copied_up_to
from ledger.app.group_offsets import source_commits
from ledger.catalog import Value, query
from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.domain.group_syncs import Place
from ledger.domain.operations.directions import Promotion
from ledger.operations.groups.beside_outputs import beside_outputs
from ledger.operations.groups.group_sync import Answer, CommitKey, GroupSync, synced_before
from ledger.operations.groups.receipts import SourceCommit
from ledger.operations.groups.sync_thread import SyncThread
from ledger.recording.writer_session import WriterSession
from ledger.schema import GROUP_SYNCS, OFFSET_SYNCS


def syncing(
    config: MirrorConfig, flow: FlowConfig, target: KafkaAdmin, session: WriterSession
) -> AbstractContextManager[object]:
    """The context in which groups are synced, one pass at least; nothing where the flow does not."""
    if not flow.sync_groups:
        return nullcontext()
    newest = open_ledger(config.ledger.path).now((GROUP_SYNCS.name,))
    sync = GroupSync(
        flow=flow.name,
        source_cluster=flow.source,
        target=target,
        answers=LedgerAnswers(config, flow),
        record=lambda rows: _record(session, rows),
        clock=SystemClock(),
        synced=synced_before(last_group_syncs(newest, flow.target, flow.name)),
    )
    return SyncThread(sync, flow.sync_groups_seconds, flow.name)


def _record(session: WriterSession, rows: Sequence[Mapping[str, object]]) -> None:
    session.append(GROUP_SYNCS.name, rows)


class LedgerAnswers:
    """Implements `group_sync.SyncAnswers` on the newest ledger."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        self._flow = flow
        self._way = Way(flow.source, flow.target)
        patterns = flow.group_patterns
        self._outputs = {
            group: topics for group, topics in config.outputs_of_groups.items() if patterns.matches(group)
        }
        self._selection = config.topic_selection(flow.name)
        self._is_both_ways = any(
            (other.source, other.target) == (flow.target, flow.source) for other in config.flows.values()
        )
        self._ledger = open_ledger(config.ledger.path)
        self._state = DeltaLedgerState(self._ledger)

    def commits(self) -> Mapping[CommitKey, object]:
        patterns = self._flow.group_patterns
        copied = copied_up_to(self._ledger.now(), self._way, self._outputs) if self._outputs else {}
        return {
            (one.group_id, one.topic, one.partition): (
                one.committed_offset,
                one.leader_epoch,
                one.topic_id,
                one.absence,
                copied.get(one.group_id),
            )
            for one in self._state.last_checkpoints(self._flow.source)
            if patterns.matches(one.group_id) and self._selection.selects(one.topic)
        }

    def map_state(self) -> object:
        table = newest_version(self._ledger.path, OFFSET_SYNCS.name)
        return None if table is None else table.version()

    def translate(self, groups: Collection[str]) -> Sequence[Answer]:
        at = self._ledger.now()
        rows: Sequence[Answer] = self._translated(at, commits_of_groups(at, groups))
        if outputs := {group: self._outputs[group] for group in self._outputs.keys() & set(groups)}:
            earlier = self._translated(at, commits_beside_outputs(at, self._way, outputs))
            rows = beside_outputs(rows, earlier, outputs)
        naming, patterns = self._flow.naming, self._flow.group_patterns
        return [
            row
            for row in rows
            if row["group_id"] in groups
            and patterns.matches(row["group_id"])
            and row["committed_offset"] is not None
            and self._selection.selects(row["source_topic"])
            and row["target_topic"] == naming.target_name(row["source_topic"])
        ]

    def _translated(self, at: DeltaSnapshot, commits: pa.Table) -> list[dict[str, Any]]:
        shown = {"checkpoints": commits}
        if self._is_both_ways:
            way = (self._flow.source, self._flow.target)
            found = between_clusters.translate(at, way, overrides=shown)
        else:
            params: dict[str, Value] = {"flow": self._flow.name, "driver_lives": False}
            found = engine.run_query(query("offset_translation"), params, at, shown)
        return list(found.to_pylist())

    def source_commits(self, groups: Collection[str]) -> Mapping[CommitKey, SourceCommit]:
        at = self._ledger.now()
        shown = {"checkpoints": commits_of_groups(at, groups)}
        return source_commits(engine.cluster_commits(at, self._flow.source, shown))

    def left_offsets(self, groups: Collection[str]) -> Mapping[Place, int]:
        return left_offsets(self._ledger.now(), self._flow.target, groups)

    def promotion(self) -> Promotion:
        directions = self._state.directions()
        return lambda topic: directions.promotion(self._flow.source, self._flow.target, topic)
