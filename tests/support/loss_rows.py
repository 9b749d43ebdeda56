"""Rows of `failover_loss`: a partition that lags, one that is complete, one of which nothing is known."""

from typing import Any

from ledger.facts.cut_offsets import Cut, CutOffset, CutSide

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
