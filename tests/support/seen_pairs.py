"""What a plan is made from, as it is seen of a pair against which nothing stands, and rows of `failover_loss`."""

from dataclasses import replace
from typing import Any

from ledger.changeover.planning import Planned, planned
from ledger.changeover.plans import ChangeoverKind, Choices
from ledger.changeover.scope import Seen, SeenCluster, SeenFlow
from ledger.config.values import FlowConfig
from ledger.facts.cut_offsets import Cut, CutOffset, CutSide
from ledger.facts.direction import Directions
from ledger.facts.fences import Fence
from ledger.facts.roles import RoleVerdict
from ledger.facts.syncs import FlowPosition, Position
from ledger.facts.tables import Row
from ledger.offsets.sheets import CommitsRead
from ledger.topics.naming import NamingKind

# -- Rows of `failover_loss` -----------------------------------------------------------------------

LAGGING: dict[str, Any] = {
    "flow": "flow",
    "source_topic": "orders",
    "source_topic_id": "E1",
    "source_partition": 0,
    "known_end": 110,
    "map_end": 90,
    "settled_records": 4,
    "records_at_risk": 16,
    "level_at_ms": 1_000,
    "lost_since_ms": 1_500,
    "at_risk_ms": 3_000,
    "ends_read_at_ms": 4_000,
    "age_ms": 2000,
    "unseen_ms": 1000,
    "rate_per_second": 5.0,
    "rate_at_ms": 4_000,
    "extra_estimate": 5,
    "unrecorded_copies": 6,
    "has_gaps": False,
    "loss_at_least": 10,
    "loss_at_most": 21,
    "status": "lagging",
}
COMPLETE = {
    **LAGGING,
    "source_partition": 1,
    "known_end": 94,
    "records_at_risk": 0,
    "level_at_ms": None,
    "lost_since_ms": None,
    "at_risk_ms": None,
    "rate_per_second": 0.0,
    "extra_estimate": 0,
    "unrecorded_copies": 0,
    "loss_at_least": 0,
    "loss_at_most": 0,
    "status": "complete",
}
UNKNOWN = {
    **COMPLETE,
    "known_end": None,
    "records_at_risk": None,
    "rate_per_second": None,
    "extra_estimate": None,
    "loss_at_least": None,
    "loss_at_most": None,
    "status": "unknown",
}


def cut(high_watermark: int, **changed: Any) -> Cut:
    """One partition as it was read at its source."""
    at = CutOffset(
        **{
            "operation_id": "o",
            "flow": "flow",
            "side": CutSide.SOURCE,
            "cluster": "east",
            "cluster_id": "E",
            "source_topic": "orders",
            "topic": "orders",
            "topic_id": "E1",
            "partition": 0,
            "high_watermark": high_watermark,
            "is_live": True,
            **changed,
        }
    )
    return Cut("o", (at,))


# -- All that is seen ------------------------------------------------------------------------------

SWITCHOVER, FAILOVER = ChangeoverKind.SWITCHOVER, ChangeoverKind.FAILOVER
_NAMING = {"topic_naming": NamingKind.IDENTITY}


def position(topic: str = "orders", partition: int = 0, **ids: str) -> FlowPosition:
    return FlowPosition(
        source_topic=topic,
        source_topic_id=ids.get("source", f"E-{topic}"),
        partition=partition,
        target_topic=ids.get("target", topic),
        target_topic_id=ids.get("target_id", f"W-{topic}"),
        position=Position(source_offset=10, target_offset=10, next_sequence=10),
    )


def flow(name: str = "flow", **changed: Any) -> SeenFlow:
    config = FlowConfig(
        **{
            "name": name,
            "source": "east",
            "target": "west",
            "topics": (".*",),
            **_NAMING,
            **changed.pop("config", {}),
        }
    )
    values: dict[str, Any] = {
        "config": config,
        "driver": RoleVerdict.IN_USE,
        "positions": [position()],
        "incarnations": {"orders": "E-orders", "users": "E-users"},
        "stopped": {},
        "unmirrored": (),
        "unrecorded": (),
    }
    return SeenFlow(**{**values, **changed})


def place(group: str | None = "billing", **changed: Any) -> Row:
    values = {
        "group_id": group,
        "source_topic": "orders",
        "source_partition": 0,
        "target_topic": "orders",
        "target_partition": 0,
        "target_offset": 7,
        "status": "exact",
        "repeated": 2,
        "absence": None,
    }
    return {**values, **changed}


def loss(records: int | None = 0, seconds: float | None = 0.0) -> Row:
    return {
        "flow": "flow",
        "source_topic": "orders",
        "partition": 0,
        "records": records,
        "estimate": 0,
        "at_least": records,
        "at_most": records,
        "seconds": seconds,
        "seconds_bound": "at_most",
        "precision_seconds": 0.5,
        "read_at_ms": 1000,
        "age_seconds": 2.0,
        "unseen_seconds": 2.0,
        "rate_per_second": 0.0,
    }


def fence(how: str, topic: str = "orders") -> Fence:
    return Fence(cluster="west", cluster_id="W", topic=topic, topic_id="W-orders", how=how, proof="proven")


EAST = SeenCluster(alias="east", recorded_id="E", live_id="E", trouble=None, topic_ids={"orders": "E-orders"})
WEST = SeenCluster(alias="west", recorded_id="W", live_id="W", trouble=None, topic_ids={"orders": "W-orders"})
DEAD = replace(EAST, live_id=None, trouble="refused", topic_ids={})
SEEN = Seen(
    source=EAST,
    target=WEST,
    flows=[flow()],
    directions=Directions(),
    direction_id=None,
    permissions="p",
    places=[place()],
    commits=CommitsRead(at_ms=1000, unseen_seconds=2.0),
    unread_groups={},
    active=frozenset(),
    hindered={},
    losses=[loss()],
    downtimes={SWITCHOVER: 30.0},
    reverse_flows={"flow": "back"},
    extras={},
    objectives={},
    target_fences=(),
    fence_refusal=None,
    shut_out_problem=None,
    cut="cut",
)


def made(seen: Seen = SEEN, kind: ChangeoverKind = SWITCHOVER, **choices: Any) -> Planned:
    return planned(kind, seen, Choices(**choices), {})
