"""What a ledger says of two partitions and of a group that reads them, for the algebra over a pair of clusters."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ledger.config.mirror import LedgerConfig, MirrorConfig
from ledger.config.values import FlowConfig
from ledger.facts.extras import ExtrasPolicy
from ledger.facts.rows import recorded_sync
from ledger.facts.syncs import Absence, OffsetRange, PartitionPair, RecordedSync, TopicPartition
from ledger.facts.tables import in_order
from ledger.store.relations import filtered_rows
from ledger.store.sql import Snapshot
from tests.support.algebra.first_unread import Ends, KnownPair, known_pair
from tests.support.algebra.links import RecordedFlow, TimedSync, leftover
from tests.support.algebra.read import KnownGroup, Move
from tests.support.algebra.translation import Commit, SeenEnd

Row = Mapping[str, Any]

_STAY_LOCAL = (ExtrasPolicy.KEEP_LOCAL, ExtrasPolicy.SALVAGE)
"""Policies by which extras come to no other side, so that no group has to read them there."""


class Log(NamedTuple):
    """A partition of a cluster by its names; which incarnation of the topic is there now, the ledger knows."""

    cluster: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class RecordedMove:
    """A move as rows of `operations` tell it, and its place in the operators' serial.

    `seen`: the place of the last append of the recorder here that it knew; None: of none, or nobody knows.
    """

    move: Move
    place: int
    seen: tuple[int, int] | None


class PairLedger:
    """The rows of a ledger at a cut, asked for pairs of partitions and for groups."""

    def __init__(self, at: Snapshot) -> None:
        self._at = at
        self._tables: dict[str, list[dict[str, Any]]] = {}

    def pair(self, here: Log, there: Log) -> KnownPair:
        """What is known of two partitions; both topics have to be known."""
        one, other = self.current(here), self.current(there)
        former = self._former_ids(here) | self._former_ids(there)
        return known_pair(
            here=one,
            there=other,
            flows=self._flows_about(
                (topic_id, log.partition) for log in (one, other) for topic_id in (log.topic_id, *former)
            ),
            ways=self._ways(self._configured.keys() | self._recorded_ways.keys()),
            relayed=self._ways(name for name, found in self._configured.items() if found.get("relay")),
            ends_here=self._ends(here),
            ends_there=self._ends(there),
            kept_local=self._kept_local(there.cluster, other),
            earlier_incarnations=former,
        )

    def group(self, group_id: str, here: Log, there: Log) -> KnownGroup:
        """What is known of a group that has commits on the topic here."""
        recorded = self._last_move(group_id, here, there)
        return KnownGroup(
            here=self.last_commit(group_id, here),
            there=self.last_commit(group_id, there),
            move=None if recorded is None else recorded.move,
            highest_seen=self._highest_seen(group_id, here, None if recorded is None else recorded.seen),
            set_there=self._set_there(group_id, there),
            has_been_there=self._has_been(group_id, there),
        )

    def current(self, log: Log) -> TopicPartition:
        """The partition of the incarnation that is there now, or was when the topic was deleted."""
        found = self._last_id(log.cluster, log.topic)
        assert found is not None, f"no row tells which topic {log.topic} of {log.cluster} is"
        return TopicPartition(log.topic, found, log.partition)

    def last_commit(self, group_id: str, log: Log) -> Commit | None:
        """The last known commit of a group on a partition; None: none was ever seen."""
        rows = self._commits.get((group_id, *log), [])
        known = [index for index, row in enumerate(rows) if row["committed_offset"] is not None]
        if not known:
            return None
        last = rows[known[-1]]
        offset = last["committed_offset"]
        others = [row["read_at_ms"] for row in rows[: known[-1]] if row["committed_offset"] != offset]
        same = [row["read_at_ms"] for row in rows if row["committed_offset"] == offset]
        absence = rows[-1]["absence"]
        return Commit(
            offset=offset,
            topic_id=last["topic_id"],
            leader_epoch=last["leader_epoch"],
            made_after_ms=max(others, default=None),
            first_read_ms=min(same),
            absence=None if absence is None else Absence(absence),
        )

    # -- groups ----------------------------------------------------------------------------------

    @cached_property
    def _commits(self) -> dict[tuple[str, str, str, int], list[Row]]:
        """By group and partition, in the order in which they were seen; of one read a lower offset comes last."""
        found: dict[tuple[str, str, str, int], list[Row]] = {}
        for row in sorted(self._rows("checkpoints"), key=_look):
            key = (row["group_id"], row["cluster"], row["topic"], row["partition"])
            found.setdefault(key, []).append(row)
        return found

    def _highest_seen(self, group_id: str, log: Log, since: tuple[int, int] | None) -> int | None:
        """Of those of the incarnation that the last known commit belongs to; of rows behind a place."""
        last = self.last_commit(group_id, log)
        return max(
            (
                row["committed_offset"]
                for row in self._commits.get((group_id, *log), [])
                if last is not None
                and row["committed_offset"] is not None
                and row["topic_id"] == last.topic_id
                and (since is None or (row["writer_epoch"], row["round"]) > since)
            ),
            default=None,
        )

    def _last_move(self, group_id: str, here: Log, there: Log) -> RecordedMove | None:
        """From there to the incarnation here that is there now."""
        found = self._moves.get((group_id, there, here), [])
        current = [one for one in found if one.move.here_topic_id == self.current(here).topic_id]
        return max(current, key=lambda one: one.place, default=None)

    def _set_there(self, group_id: str, there: Log) -> Commit | None:
        """The lowest that moves have set of the incarnation that is there now."""
        topic_id = self.current(there).topic_id
        found = [
            one.move.arrived_at
            for (group, _, target), moves in self._moves.items()
            for one in moves
            if (group, target, one.move.here_topic_id) == (group_id, there, topic_id)
        ]
        return Commit(offset=min(found), topic_id=topic_id) if found else None

    def _has_been(self, group_id: str, there: Log) -> bool:
        """Whether it has committed on the topic, or has moved from it or to it."""
        committed = {
            (group, cluster, topic)
            for (group, cluster, topic, _), rows in self._commits.items()
            if any(row["committed_offset"] is not None for row in rows)
        }
        moved = {(group, *target[:2]) for group, _, target in self._moves}
        left = {
            (group, *source[:2])
            for (group, source, _), moves in self._moves.items()
            if any(one.move.left is not None for one in moves)
        }
        return (group_id, there.cluster, there.topic) in committed | moved | left

    @cached_property
    def _moves(self) -> dict[tuple[str, Log, Log], list[RecordedMove]]:
        """By group, where it came from and where it went; those that were read back."""
        read_back = {
            (row["operation_id"], content["group"], one["topic"], one["partition"]): row["round"]
            for row, content in self._operations("offsets_set_result")
            for one in content["results"]
            if one["result"] == "set"
        }
        found: dict[tuple[str, Log, Log], list[RecordedMove]] = {}
        for row, content in self._operations("offsets_set"):
            for one in content["commits"]:
                key = (row["operation_id"], content["group"], one["topic"], one["partition"])
                if key in read_back and content.get("source_cluster") is not None:
                    source = Log(content["source_cluster"], one["source_topic"], one["source_partition"])
                    target = Log(content["target_cluster"], one["topic"], one["partition"])
                    moves = found.setdefault((content["group"], source, target), [])
                    moves.append(RecordedMove(_move_of(one), read_back[key], _seen_of(content)))
        return found

    # -- topics and ends -------------------------------------------------------------------------

    @cached_property
    def _seen_ids(self) -> dict[tuple[str, str], list[tuple[str, bool, int]]]:
        """By topic the ids that its cluster's recorder saw, in order, and when; False: it was seen to end."""
        sightings = [*self._rows("high_watermarks"), *self._rows("topics")]
        found: dict[tuple[str, str], list[tuple[str, bool, int]]] = {}
        for row in in_order(sightings):
            sighting = row["topic_id"], row.get("event") != "deleted", row["recorded_at_ms"]
            found.setdefault((row["cluster"], row["topic"]), []).append(sighting)
        return found

    @cached_property
    def _mirrored_ids(self) -> dict[tuple[str, str], list[tuple[str, int]]]:
        """By topic the ids that flows read or wrote, and when, the last one last."""
        found: dict[tuple[str, str], list[tuple[str, int]]] = {}
        for row in sorted(self._rows("offset_syncs"), key=lambda row: row["recorded_at_ms"]):
            for side in ("source", "target"):
                topic = (row[f"{side}_cluster"], row[f"{side}_topic"])
                found.setdefault(topic, []).append((row[f"{side}_topic_id"], row["recorded_at_ms"]))
        return found

    def _current_id(self, cluster: str, topic: str) -> str | None:
        """None: it is deleted, or nobody saw it."""
        found, seen = self._last_id(cluster, topic), self._seen_ids.get((cluster, topic), [])
        return None if seen and found == seen[-1][0] and not seen[-1][1] else found

    def _last_id(self, cluster: str, topic: str) -> str | None:
        """As its recorder saw it last, deleted or not, or a later one that flows alone did; None: nobody saw it."""
        seen = self._seen_ids.get((cluster, topic), [])
        by_recorder = {topic_id for topic_id, *_ in seen}
        mirrored = [one for one in self._mirrored_ids.get((cluster, topic), []) if one[0] not in by_recorder]
        if mirrored and (not seen or mirrored[-1][1] > seen[-1][2]):
            return mirrored[-1][0]
        return seen[-1][0] if seen else None

    def _former_ids(self, log: Log) -> frozenset[str]:
        topic = (log.cluster, log.topic)
        ids = {topic_id for topic_id, *_ in self._seen_ids.get(topic, [])}
        ids |= {topic_id for topic_id, _ in self._mirrored_ids.get(topic, [])}
        return frozenset(ids) - {self._last_id(*topic)}

    def _ends(self, log: Log) -> Ends | None:
        at = self.current(log)
        rows = [
            row
            for row in in_order(self._rows("high_watermarks"))
            if (row["cluster"], row["topic_id"], row["partition"]) == (log.cluster, at.topic_id, at.partition)
        ]
        if not rows:
            return None
        seen = (
            SeenEnd(row["leader_epoch"], row["high_watermark"])
            for row in rows
            if row["leader_epoch"] is not None
        )
        return Ends(
            log_start=rows[-1]["log_start"], high_watermark=rows[-1]["high_watermark"], seen=tuple(seen)
        )

    def _kept_local(self, cluster: str, at: TopicPartition) -> list[OffsetRange]:
        """What was decided to stay where it is; of several decisions on an offset the last counts."""
        kept: list[OffsetRange] = []
        for _, decided in self._operations("extras_decided"):
            if (decided["cluster"], decided["topic_id"]) != (cluster, at.topic_id):
                continue
            for one in decided["ranges"]:
                if one["partition"] == at.partition:
                    extras = (one["extra_start"], one["extra_end"])
                    kept = [
                        *leftover(kept, [extras]),
                        *([extras] if decided["policy"] in _STAY_LOCAL else []),
                    ]
        return kept

    # -- flows -----------------------------------------------------------------------------------

    @cached_property
    def _flows(self) -> list[RecordedFlow]:
        grouped: dict[tuple[str, str, int], list[tuple[RecordedSync, int]]] = {}
        for row in self._rows("offset_syncs"):
            key = (row["flow"], row["source_topic_id"], row["source_partition"])
            grouped.setdefault(key, []).append((recorded_sync(row), row["recorded_at_ms"]))
        return [
            RecordedFlow(
                flow,
                [TimedSync(found.sync, at_ms) for found, at_ms in sorted(rows, key=lambda one: one[0].place)],
            )
            for (flow, _, _), rows in grouped.items()
        ]

    def _flows_about(self, logs: Iterable[tuple[str, int]]) -> list[RecordedFlow]:
        """Those with rows from or to these, or from or to what these have rows of."""
        around = set(logs)
        around |= {end for flow in self._flows for ends in [_ends_of(flow)] if ends & around for end in ends}
        return [flow for flow in self._flows if _ends_of(flow) & around]

    def _ways(self, flows: Iterable[str]) -> list[PartitionPair]:
        """Between which partitions of current topics flows copy: where they did before, all partitions of the topics of
        which they did one, and by their configuration."""
        flows = [*flows]
        pairs = {
            *(pair for flow in flows for pair in self._recorded_ways.get(flow, ())),
            *(pair for flow in flows for pair in self._ways_of_topics(flow)),
            *(pair for flow in flows for pair in self._configured_ways(flow)),
        }
        return [
            PartitionPair(self.current(source), self.current(target))
            for source, target in sorted(pairs)
            if {source, target} <= self._logs
        ]

    @cached_property
    def _logs(self) -> set[Log]:
        """All partitions of topics that are there, as far as anybody has seen."""
        logs = {
            *(Log(row["cluster"], row["topic"], row["partition"]) for row in self._rows("high_watermarks")),
            *(log for pairs in self._recorded_ways.values() for pair in pairs for log in pair),
        }
        return {log for log in logs if self._current_id(log.cluster, log.topic) is not None}

    @cached_property
    def _recorded_ways(self) -> dict[str, set[tuple[Log, Log]]]:
        """By flow where it has copied from and to, whatever incarnations these were of."""
        found: dict[str, set[tuple[Log, Log]]] = {}
        for row in self._rows("offset_syncs"):
            found.setdefault(row["flow"], set()).add((_log_of(row, "source"), _log_of(row, "target")))
        return found

    def _ways_of_topics(self, flow: str) -> Iterator[tuple[Log, Log]]:
        for source, target in {
            (source._replace(partition=0), target._replace(partition=0))
            for source, target in self._recorded_ways.get(flow, ())
        }:
            for log in self._logs:
                if log == source._replace(partition=log.partition):
                    yield log, target._replace(partition=log.partition)

    def _configured_ways(self, flow: str) -> Iterator[tuple[Log, Log]]:
        """By the topics that its configuration selects; none when the ledger has no whole configuration of it."""
        config = self._configuration
        if flow in config.flows:
            selection, naming = config.topic_selection(flow), config.flow(flow).naming
            for log in self._logs:
                if log.cluster == config.flow(flow).source and selection.selects(log.topic):
                    target = naming.target_name(log.topic)
                    yield log, Log(config.flow(flow).target, target, log.partition)

    @cached_property
    def _configured(self) -> dict[str, Mapping[str, Any]]:
        """By flow its configuration, as it was recorded last."""
        changes = self._operations("configuration_changed")
        return {row["flow"]: content["configuration"] for row, content in changes}

    @cached_property
    def _configuration(self) -> MirrorConfig:
        flows = {
            name: FlowConfig.model_validate(dict(found))
            for name, found in self._configured.items()
            if "topics" in found
        }
        return MirrorConfig(file="", ledger=LedgerConfig(path="unused"), clusters={}, flows=flows)

    # --------------------------------------------------------------------------------------------

    def _operations(self, kind: str) -> list[tuple[Row, dict[str, Any]]]:
        """The rows of a kind in order, each with its content."""
        rows = [row for row in in_order(self._rows("operations")) if row["kind"] == kind]
        return [(row, json.loads(row["content"])) for row in rows]

    def _rows(self, table: str) -> list[dict[str, Any]]:
        if table not in self._tables:
            self._tables[table] = filtered_rows(self._at.relation(table), [])
        return self._tables[table]


def _move_of(one: Mapping[str, Any]) -> Move:
    left = one["source_offset"]
    return Move(
        left=None
        if left is None
        else Commit(
            offset=left,
            topic_id=one["source_topic_id"],
            leader_epoch=one.get("source_leader_epoch"),
            made_after_ms=one.get("source_made_after_ms"),
        ),
        arrived_at=one["to"],
        here_topic_id=one["topic_id"],
    )


def _seen_of(content: Mapping[str, Any]) -> tuple[int, int] | None:
    found = [one for one in content.get("seen") or () if one["table"] == "checkpoints"]
    return (found[0]["epoch"], found[0]["round"]) if found else None


def _look(row: Row) -> tuple[Any, ...]:
    """Sorts rows of `checkpoints`, the last one last: of one read a commit counts, not its absence."""
    is_there = row["committed_offset"] is not None
    return row["writer_epoch"], row["round"], row["read_at_ms"], is_there, -(row["committed_offset"] or 0)


def _ends_of(flow: RecordedFlow) -> set[tuple[str, int]]:
    logs = {log for row in flow.rows for log in (row.sync.source, row.sync.target)}
    return {(log.topic_id, log.partition) for log in logs}


def _log_of(row: Row, side: str) -> Log:
    return Log(row[f"{side}_cluster"], row[f"{side}_topic"], row[f"{side}_partition"])
