"""Lives of two clusters as a ledger: the rows that flows and recorders would have appended, several lives in one."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from ledger.facts.syncs import Absence
from ledger.facts.tables import Row
from tests.simulation.ledger.tables import MemoryLedger, MemorySnapshot
from tests.support.algebra.first_unread import KnownPair
from tests.support.algebra.read import KnownGroup, Move
from tests.support.algebra.translation import Commit
from tests.support.group_lives import Life
from tests.support.group_logs import Flow, Group, Log, RecordedMove, other_than
from tests.support.ledger_rows import row

_ROUNDS_OF_A_LIFE = 1000
_ALIKE = 4
"""How many lives have topic ids in common."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the partitions of a life are called in a ledger. `is_cloned`: topics have the same id at all clusters."""

    topic: str
    ids: str
    partition: int
    is_cloned: bool

    def id_of(self, topic_id: str) -> str:
        """Of an incarnation of its topic at a cluster."""
        return f"{topic_id.split('-')[1] if self.is_cloned else topic_id}-{self.ids}"


def names_of(lives: Sequence[Life]) -> list[Names]:
    """Of each life, in their order. Those whose topics were recreated have topics of their own.

    A life of which a flow recorded nothing has, too, because one partition of a topic tells of the flows of all.
    The others of a world go by fours: two partitions of a topic, and the same of another one with the same topic id.
    """
    found, alike = list[Names](), Counter[str]()
    for number, life in enumerate(lives):
        is_begun = all(any(flow.rows.values()) for flow in life.flows)
        if not is_begun or any(log.life for log in life.logs.values()):
            found.append(Names(f"orders-{number}", str(number), 0, is_cloned=number % 2 == 1))
            continue
        four, which = divmod(alike[life.world], _ALIKE)
        topic, ids = f"{life.world}-{alike[life.world] // 2}", f"{life.world}-{four}"
        found.append(Names(topic, ids, which % 2, is_cloned=four % 2 == 1))
        alike[life.world] += 1
    return found


def snapshot_of(lives: Sequence[Life]) -> MemorySnapshot:
    """A ledger that recorded all these lives, each under its names (`names_of`)."""
    ledger = MemoryLedger()
    for names, life in zip(names_of(lives), lives, strict=True):
        ledger.append("writers", [_claim_row(flow) for flow in life.flows])
        ledger.append("operations", [_relay_row(flow) for flow in life.flows])
        for flow in life.flows:
            ledger.append("offset_syncs", list(_sync_rows(names, flow)))
        for log in life.logs.values():
            ledger.append("topics", [_topic_row(names, log, which) for which in range(log.life + 1)])
            ledger.append("high_watermarks", [_watermark_row(names, log)])
            ledger.append("operations", list(_decision_rows(names, log)))
        for group in life.groups:
            ledger.append("checkpoints", list(_checkpoint_rows(names, group)))
            ledger.append("operations", list(_move_rows(names, group)))
    return ledger.at(ledger.latest())


def recorded_pair(life: Life, here: str) -> KnownPair:
    """As the rows tell it: flows that have recorded nothing are not known of."""
    ways = [flow.way for flow in life.flows if any(flow.rows.values())]
    return life.known_pair(here, other_than(here), ways)


def recorded_group(life: Life, group: Group) -> KnownGroup:
    """What the rows say of a group where it is."""
    move = group.moves.get(group.at)
    if move is not None and move.target_topic_id != life.logs[group.at].partition.topic_id:
        move = None
    here, there = group.sides[group.at], group.sides.get(other_than(group.at))
    committed = [(index, seen) for index, seen in enumerate(here.seen) if seen.commit.absence is None]
    last = committed[-1][1].commit
    return KnownGroup(
        here=_known(group, group.at),
        there=None if there is None or not there.seen else _known(group, other_than(group.at)),
        set_there=group.set_at(other_than(group.at)),
        move=None
        if move is None
        else Move(left=move.left, arrived_at=move.arrived_at, here_topic_id=move.target_topic_id),
        highest_seen=max(
            (
                seen.commit.offset
                for index, seen in committed
                if seen.commit.topic_id == last.topic_id and (move is None or index >= move.seen_before)
            ),
            default=None,
        ),
    )


def _known(group: Group, cluster: str) -> Commit:
    seen = group.sides[cluster].seen
    index = max(place for place, one in enumerate(seen) if one.commit.absence is None)
    last = seen[index].commit
    before = [
        one.read_at_ms
        for one in seen[:index]
        if one.commit.absence is not None or one.commit.offset != last.offset
    ]
    is_absent = index + 1 < len(seen)
    return Commit(
        offset=last.offset,
        topic_id=last.topic_id,
        leader_epoch=last.leader_epoch,
        made_after_ms=max(before, default=None),
        absence=Absence.GONE if is_absent else None,
    )


def _flow_name(flow: Flow) -> str:
    return f"{flow.name}-relaying" if flow.is_relay else flow.name


def _relay_row(flow: Flow) -> Row:
    content = {"configuration": {"relay": flow.is_relay}}
    return row("operations", kind="configuration_changed", flow=_flow_name(flow), content=json.dumps(content))


def _claim_row(flow: Flow) -> Row:
    return row(
        "writers",
        event="claimed",
        flow=_flow_name(flow),
        source_cluster=flow.source.cluster,
        target_cluster=flow.target.cluster,
    )


def _sync_rows(names: Names, flow: Flow) -> Iterator[Row]:
    for which, (_, rows) in enumerate(sorted(flow.rows.items())):
        for index, timed in enumerate(rows):
            sync = timed.sync
            values = {name: value for name, value in asdict(sync).items() if name not in ("source", "target")}
            for side, at in (("source", sync.source), ("target", sync.target)):
                values |= {
                    f"{side}_topic": names.topic,
                    f"{side}_topic_id": names.id_of(at.topic_id),
                    f"{side}_partition": names.partition,
                }
            values |= {"source_cluster": flow.source.cluster, "target_cluster": flow.target.cluster}
            values |= {"flow": _flow_name(flow), "writer": f"flow:{flow.name}", "writer_epoch": 1}
            values |= {"round": which * _ROUNDS_OF_A_LIFE + index, "recorded_at_ms": timed.recorded_at_ms}
            yield row("offset_syncs", **values)


def _of_log(names: Names, log: Log) -> dict[str, object]:
    return {
        "cluster": log.cluster,
        "topic": names.topic,
        "topic_id": names.id_of(log.partition.topic_id),
    }


def _topic_row(names: Names, log: Log, which: int) -> Row:
    found = {**_of_log(names, log), "topic_id": names.id_of(f"{log.cluster}-{which}")}
    return row("topics", **found, event="created", round=which, recorded_at_ms=1_000_000_000 + which)


def _watermark_row(names: Names, log: Log) -> Row:
    return row(
        "high_watermarks",
        **_of_log(names, log),
        partition=names.partition,
        log_start=log.log_start,
        last_stable=log.end,
        high_watermark=log.end,
        leader_epoch=log.leader_epoch,
        round=_ROUNDS_OF_A_LIFE,
        recorded_at_ms=1_100_000_000,
    )


def _decision_rows(names: Names, log: Log) -> Iterator[Row]:
    ranges = [
        {"partition": names.partition, "extra_start": start, "extra_end": end}
        for start, end in log.kept_local
    ]
    content = {**_of_log(names, log), "policy": "keep_local", "ranges": ranges}
    yield row("operations", kind="extras_decided", content=json.dumps(content))


def _checkpoint_rows(names: Names, group: Group) -> Iterator[Row]:
    for cluster, side in group.sides.items():
        for index, seen in enumerate(side.seen):
            is_there = seen.commit.absence is None
            yield row(
                "checkpoints",
                cluster=cluster,
                group_id=group.name,
                topic=names.topic,
                topic_id=names.id_of(str(seen.commit.topic_id)),
                partition=names.partition,
                committed_offset=seen.commit.offset if is_there else None,
                leader_epoch=seen.commit.leader_epoch if is_there else None,
                absence=None if is_there else seen.commit.absence,
                read_at_ms=seen.read_at_ms,
                round=index,
            )


def _move_rows(names: Names, group: Group) -> Iterator[Row]:
    for cluster, move in group.moves.items():
        of_move = {
            "flow": f"{move.source}-to-{cluster}",
            "operation_id": f"{names.topic}-{names.partition}-{group.name}-{cluster}",
            "recorded_at_ms": move.at_ms,
        }
        yield row("operations", **of_move, kind="offsets_set", content=_intended(names, group, cluster, move))
        content = {
            "group": group.name,
            "results": [{"topic": names.topic, "partition": names.partition, "result": "set"}],
        }
        yield row("operations", **of_move, kind="offsets_set_result", content=json.dumps(content))


def _intended(names: Names, group: Group, cluster: str, move: RecordedMove) -> str:
    commit = {
        "source_topic": names.topic,
        "source_topic_id": names.id_of(str(move.left.topic_id)),
        "source_partition": names.partition,
        "source_offset": move.left.offset,
        "source_leader_epoch": move.left.leader_epoch,
        "source_made_after_ms": move.left.made_after_ms,
        "topic": names.topic,
        "topic_id": names.id_of(move.target_topic_id),
        "partition": names.partition,
        "to": move.arrived_at,
    }
    content = {
        "group": group.name,
        "source_cluster": move.source,
        "target_cluster": cluster,
        "commits": [commit],
        "seen": [
            {
                "table": "checkpoints",
                "writer": f"recorder:{cluster}",
                "epoch": 0,
                "round": move.seen_before - 1,
            }
        ],
    }
    return json.dumps(content)
