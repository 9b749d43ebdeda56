"""What a change of sides leaves behind, without times and names.

So one that was interrupted can be compared with one that was not.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ledger.facts.operations import OperationKind
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.support.changing_pairs import REVERSE, TOPICS, ChangingPair

_OF_EACH_ATTEMPT = frozenset(
    {
        *(OperationKind.APPLY_CLAIMED, OperationKind.APPLY_ALIVE, OperationKind.STEP_BEGUN),
        *(OperationKind.STEP_DONE, OperationKind.STEP_FAILED, OperationKind.UNDO_BEGUN),
        *(OperationKind.FENCE, OperationKind.MIRROR_SHUT_OUT),
        *(OperationKind.HANDED_OVER, OperationKind.HAND_OVER_RESULT, OperationKind.HAND_OVER_UNDONE),
        *(OperationKind.OFFSETS_SET, OperationKind.OFFSETS_SET_RESULT, OperationKind.SHEET),
        OperationKind.SETTLED,
    }
)
"""Rows of which there are as many as attempts were made."""
_STAMP = frozenset({"recorded_at_ms", "read_at_ms", "writer", "writer_epoch", "round", "operation_id"})
_OF_THE_LAST_ATTEMPT = {
    "promote": ("is_new",),
    "move_groups": ("partitions",),
    "shut_out": ("flows", "proof"),
    "settle": ("east-to-west",),
}
"""What a receipt says of what was lacking still, and of who was found."""


def at_clusters(pair: ChangingPair) -> dict[str, Any]:
    """Rules, settings, and commits of groups at both clusters."""
    return {
        f"{cluster.alias} {what}": found
        for cluster in (pair.east, pair.west)
        for what, found in (
            ("rules", frozenset(cluster.acls)),
            ("permissions", frozenset(cluster.allowed.others)),
            ("settings", {name: dict(topic.configuration) for name, topic in cluster.topic_by_name.items()}),
            ("commits", dict(cluster.committed)),
        )
    }


def in_ledger(pair: ChangingPair, operation_id: str) -> dict[str, Any]:
    """What an operation has recorded, and what holds by it.

    Of kinds of rows that each attempt appends anew there is no count; what they come to is told beside them.
    """
    state = MemoryLedgerState(pair.ledger)
    rows = pair.rows("operations", operation_id)
    told = [(row["kind"], json.loads(row["content"].replace(operation_id, "ID"))) for row in rows]
    last = {kind: _plain(content) for kind, content in told}
    receipts = {
        content["step"]: _as_ended(content["step"], _plain(content["read_back"]))
        for kind, content in told
        if kind == "step_done"
    }
    return {
        "rows": Counter(kind for kind, _ in told if kind not in _OF_EACH_ATTEMPT),
        "receipts": receipts,
        "ended": last.get("apply_ended"),
        "undone": last.get("undone"),
        "sheets": {
            content["group"]: {(one["topic"], one["partition"], one["to"]) for one in content["commits"]}
            for kind, content in told
            if kind in ("offsets_set", "sheet")
        },
        "settled": [
            (row["source_topic"], row["source_partition"], row["target_start"], row["target_end"])
            for row in pair.ledger.rows("offset_syncs")
            if row["cause"] == "lost_source"
        ],
        "cut": sorted(
            json.dumps({name: value for name, value in row.items() if name not in _STAMP}, sort_keys=True)
            for row in pair.rows("cut_offsets", operation_id)
        ),
        "directions": {
            way: sorted(
                topic for topic, by in state.directions().promotions(*way, list(TOPICS)).items() if by
            )
            for way in (("east", "west"), ("west", "east"))
        },
        "fences": sorted(
            (
                one.fence.topic,
                str(one.fence.how),
                str(one.fence.proof),
                one.fence.denied,
                str(one.fence.former),
            )
            for one in state.fences().at("east")
        ),
        "shut out": state.shut_outs().rules(pair.west.kafka_id, list(TOPICS)),
    }


def _as_ended(step: str, receipt: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in receipt.items() if name not in _OF_THE_LAST_ATTEMPT.get(step, ())}


def _plain(content: Any) -> Any:
    """Without what differs from one time to another: times, durations, cuts, and who it was."""
    if isinstance(content, Mapping):
        return {name: _plain(value) for name, value in content.items() if not _is_of_time(name)}
    return [_plain(one) for one in content] if isinstance(content, list) else content


def _is_of_time(name: str) -> bool:
    return name in ("cut", "operation", "host") or name.endswith(("_ms", "_s")) or "seconds" in name


def came_to(pair: ChangingPair, operation_id: str) -> dict[str, Any]:
    """All of it: at both clusters, in the ledger, and what groups have processed."""
    return {
        **at_clusters(pair),
        **in_ledger(pair, operation_id),
        "processed": {group: sorted(found) for group, found in pair.processed.items()},
        "values": {cluster.alias: pair.values(cluster) for cluster in (pair.east, pair.west)},
    }


def copied_back(pair: ChangingPair, operation_id: str) -> dict[str, Any]:
    """What the reverse flow does from the cut of an operation on: where it begins, and what comes to east."""
    pair.let_mirror_write_at_east()
    pair.reverse.from_cut = MemoryLedgerState(pair.ledger).cut(operation_id)
    pair.reverse.run_a_while(3.0)
    syncs = [row for row in pair.ledger.rows("offset_syncs") if row["flow"] == REVERSE]
    columns = (
        "source_topic",
        "source_partition",
        "kind",
        "cause",
        "source_start",
        "source_end",
        "target_start",
    )
    return {
        "syncs": [
            tuple(row[name] for name in columns)
            for row in sorted(syncs, key=lambda row: (row["source_topic"], row["source_partition"]))
        ],
        "east": pair.values(pair.east),
    }
