"""Lives of two clusters as a ledger: the rows that flows and recorders would have appended, several lives in one.

Each life has topics of its own. `known_group` is what the rows say of a group, read here without any query.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ledger.domain.facts import Absence, PartitionPair
from ledger.domain.offsets.translation import CLOCK_MARGIN_MS, Commit
from ledger.domain.pair.assembly import Ends, known_pair
from ledger.domain.pair.first_unread import KnownPair
from ledger.domain.pair.read_offsets import KnownGroup, Move
from tests.simulation.ledger.tables import MemoryLedger, MemorySnapshot
from tests.support.ledger_rows import Row, row
from tests.support.pair_lives import Life
from tests.support.pair_logs import Flow, Group, Log, RecordedMove, other_than

_ROUNDS_OF_A_LIFE = 1000


def snapshot_of(lives: Sequence[Life]) -> MemorySnapshot:
    """A ledger that recorded all these lives, each under topics of its own (`topic_of`)."""
    ledger = MemoryLedger()
    for number, life in enumerate(lives):
        ledger.append("writers", [_claim_row(number, flow) for flow in life.flows])
        ledger.append("operations", [_relay_row(number, flow) for flow in life.flows])
        for flow in life.flows:
            ledger.append("offset_syncs", list(_sync_rows(number, flow)))
        for log in life.logs.values():
            ledger.append("topics", [_topic_row(number, log, which) for which in range(log.life + 1)])
            ledger.append("high_watermarks", [_watermark_row(number, log)])
            ledger.append("operations", list(_decision_rows(number, log)))
        for group in life.groups:
            ledger.append("checkpoints", list(_checkpoint_rows(number, group)))
            ledger.append("operations", list(_move_rows(number, group)))
    return ledger.at(ledger.latest())


def topic_of(number: int) -> str:
    return f"orders-{number}"


def recorded_pair(life: Life, here: str) -> KnownPair:
    """As the rows tell it: flows that have recorded nothing are not known of."""
    here_log, there_log = life.logs[here], life.logs[other_than(here)]
    return known_pair(
        here=here_log.partition,
        there=there_log.partition,
        flows=life.recorded_flows(),
        ends_here=Ends(log_start=here_log.log_start, high_watermark=here_log.end),
        ends_there=Ends(log_start=there_log.log_start, high_watermark=there_log.end),
        kept_local=there_log.kept_local,
        former_lives=frozenset(
            f"{log.cluster}-{which}" for log in (here_log, there_log) for which in range(log.life)
        ),
        ways=[
            PartitionPair(flow.source.partition, flow.target.partition)
            for flow in life.flows
            if any(flow.rows.values())
        ],
        relayed=[flow.way for flow in life.flows if flow.is_relay],
    )


def recorded_group(life: Life, group: Group) -> KnownGroup:
    """What the rows say of a group where it is."""
    move = group.moves.get(group.at)
    if move is not None and move.target_topic_id != life.logs[group.at].partition.topic_id:
        move = None
    here, there = group.sides[group.at], group.sides.get(other_than(group.at))
    committed = [seen for seen in here.seen if seen.commit.absence is None]
    last = committed[-1].commit
    return KnownGroup(
        here=_known(group, group.at),
        there=None if there is None or not there.seen else _known(group, other_than(group.at)),
        move=None
        if move is None
        else Move(left=move.left, arrived_at=move.arrived_at, here_topic_id=move.target_topic_id),
        highest_seen=max(
            (
                seen.commit.offset
                for seen in committed
                if seen.commit.topic_id == last.topic_id
                and (move is None or seen.read_at_ms + CLOCK_MARGIN_MS >= move.at_ms)
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


def _id(number: int, topic_id: str) -> str:
    return f"{topic_id}-{number}"


def _name(number: int, flow: Flow) -> str:
    return f"{flow.name}-{number}"


def _relay_row(number: int, flow: Flow) -> Row:
    content = {"configuration": {"relay": flow.is_relay}}
    return row(
        "operations", kind="configuration_changed", flow=_name(number, flow), content=json.dumps(content)
    )


def _claim_row(number: int, flow: Flow) -> Row:
    return row(
        "writers",
        event="claimed",
        flow=_name(number, flow),
        source_cluster=flow.source.cluster,
        target_cluster=flow.target.cluster,
    )


def _sync_rows(number: int, flow: Flow) -> Iterator[Row]:
    for which, (_, rows) in enumerate(sorted(flow.rows.items())):
        for index, timed in enumerate(rows):
            sync = timed.sync
            values = {name: value for name, value in asdict(sync).items() if name not in ("source", "target")}
            for side, at in (("source", sync.source), ("target", sync.target)):
                values |= {
                    f"{side}_topic": topic_of(number),
                    f"{side}_topic_id": _id(number, at.topic_id),
                    f"{side}_partition": 0,
                }
            values |= {"source_cluster": flow.source.cluster, "target_cluster": flow.target.cluster}
            values |= {"flow": _name(number, flow), "writer": f"flow:{flow.name}", "writer_epoch": 1}
            values |= {"round": which * _ROUNDS_OF_A_LIFE + index, "recorded_at_ms": timed.recorded_at_ms}
            yield row("offset_syncs", **values)


def _of_log(number: int, log: Log) -> dict[str, object]:
    return {
        "cluster": log.cluster,
        "topic": topic_of(number),
        "topic_id": _id(number, log.partition.topic_id),
    }


def _topic_row(number: int, log: Log, which: int) -> Row:
    found = {**_of_log(number, log), "topic_id": _id(number, f"{log.cluster}-{which}")}
    return row("topics", **found, event="created", round=which, recorded_at_ms=1_000_000_000 + which)


def _watermark_row(number: int, log: Log) -> Row:
    return row(
        "high_watermarks",
        **_of_log(number, log),
        partition=0,
        log_start=log.log_start,
        last_stable=log.end,
        high_watermark=log.end,
        leader_epoch=log.leader_epoch,
        round=_ROUNDS_OF_A_LIFE,
        recorded_at_ms=1_100_000_000,
    )


def _decision_rows(number: int, log: Log) -> Iterator[Row]:
    ranges = [{"partition": 0, "extra_start": start, "extra_end": end} for start, end in log.kept_local]
    content = {**_of_log(number, log), "policy": "keep_local", "ranges": ranges}
    yield row("operations", kind="extras_decided", content=json.dumps(content))


def _checkpoint_rows(number: int, group: Group) -> Iterator[Row]:
    for cluster, side in group.sides.items():
        for index, seen in enumerate(side.seen):
            is_there = seen.commit.absence is None
            yield row(
                "checkpoints",
                cluster=cluster,
                group_id=group.name,
                topic=topic_of(number),
                topic_id=_id(number, str(seen.commit.topic_id)),
                partition=0,
                committed_offset=seen.commit.offset if is_there else None,
                leader_epoch=seen.commit.leader_epoch if is_there else None,
                absence=None if is_there else seen.commit.absence,
                read_at_ms=seen.read_at_ms,
                round=index,
            )


def _move_rows(number: int, group: Group) -> Iterator[Row]:
    for cluster, move in group.moves.items():
        of_move = {
            "flow": f"{move.source}-to-{cluster}",
            "operation_id": f"{number}-{group.name}-{cluster}",
            "recorded_at_ms": move.at_ms,
        }
        yield row(
            "operations", **of_move, kind="offsets_set", content=_intended(number, group, cluster, move)
        )
        content = {
            "group": group.name,
            "results": [{"topic": topic_of(number), "partition": 0, "result": "set"}],
        }
        yield row("operations", **of_move, kind="offsets_set_result", content=json.dumps(content))


def _intended(number: int, group: Group, cluster: str, move: RecordedMove) -> str:
    commit = {
        "source_topic": topic_of(number),
        "source_topic_id": _id(number, str(move.left.topic_id)),
        "source_partition": 0,
        "source_offset": move.left.offset,
        "source_leader_epoch": move.left.leader_epoch,
        "source_made_after_ms": move.left.made_after_ms,
        "topic": topic_of(number),
        "topic_id": _id(number, move.target_topic_id),
        "partition": 0,
        "to": move.arrived_at,
    }
    content = {
        "group": group.name,
        "source_cluster": move.source,
        "target_cluster": cluster,
        "commits": [commit],
    }
    return json.dumps(content)
