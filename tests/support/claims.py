"""Rows of `writers` by hand."""

from typing import Any


def claimed(
    flow: str,
    epoch: int,
    *,
    producer_id: int | None,
    at: str = "W",
    source: str = "E",
    former: int | None = None,
    at_ms: int | None = None,
    metadata: int | None = None,
) -> dict[str, Any]:
    """The claim of a flow from `east` to `west`; `at` and `source` are Kafka cluster ids."""
    return {
        "writer": f"flow:{flow}",
        "recorded_at_ms": epoch if at_ms is None else at_ms,
        "writer_epoch": epoch,
        "round": 0,
        "flow": flow,
        "source_cluster": "east",
        "source_cluster_id": source,
        "target_cluster": "west",
        "target_cluster_id": at,
        "producer_id": producer_id,
        "former_producer_id": former,
        "source_metadata_offset": None,
        "target_metadata_offset": metadata,
    }
