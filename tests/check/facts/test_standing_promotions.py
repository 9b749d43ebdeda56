"""What stands about a promoted topic, from rows in their order: promotions, what takes them back, fences."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ledger.facts.direction import ActivePromotion, Demoted, DirectionRows, FenceState, Promoted
from ledger.facts.fences import Fence, Unfenced
from ledger.facts.operations import OperationContent
from tests.support.ledger_rows import row

WEST: dict[str, Any] = {"cluster": "west", "cluster_id": "W", "former": "east", "former_id": "E"}
EAST: dict[str, Any] = {"cluster": "east", "cluster_id": "E", "former": "west", "former_id": "W"}
PROMOTED = Promoted(**WEST, topics=None)
DEMOTED = Demoted(**WEST, topics=None)
NONE, STANDS, LIFTED = FenceState.NONE, FenceState.STANDS, FenceState.LIFTED


def fence(cluster: str = "east", topic: str = "orders", proof: str = "proven") -> Fence:
    return Fence(
        cluster=cluster, cluster_id="C", topic=topic, topic_id="T", how="closed", proof=proof, former={}
    )


def unfenced(cluster: str = "east", topic: str = "orders") -> Unfenced:
    return Unfenced(cluster=cluster, cluster_id="C", topic=topic, topic_id="T", how="closed", restored={})


def standing(*contents: OperationContent) -> ActivePromotion | None:
    """Of `orders`; operation n is recorded at n ms."""
    rows = [
        row(
            "operations",
            kind=str(content.kind),
            content=json.dumps(content.content()),
            operation_id=f"o{number}",
            recorded_at_ms=number,
        )
        for number, content in enumerate(contents, start=1)
    ]
    return DirectionRows.of_rows(rows).promotion(
        source="east", target="west", source_topic="orders", topic="orders"
    )


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ([PROMOTED], NONE),
        ([fence(), PROMOTED], STANDS),
        ([PROMOTED, fence(proof="unproven")], STANDS),
        ([fence(), PROMOTED, unfenced()], LIFTED),
        ([fence(), unfenced(), PROMOTED], NONE),
        ([fence(), unfenced(), PROMOTED, fence()], STANDS),
        ([fence(), PROMOTED, unfenced(), DEMOTED, PROMOTED], NONE),
        ([fence(), PROMOTED, unfenced(), PROMOTED], LIFTED),
        ([fence("west"), PROMOTED], NONE),
        ([fence("east", "users"), PROMOTED], NONE),
        ([fence(), PROMOTED, unfenced("west"), unfenced("east", "users")], STANDS),
    ],
    ids=str,
)
def test_the_fence_of_where_applications_wrote(
    contents: Sequence[OperationContent], expected: FenceState
) -> None:
    found = standing(*contents)
    assert found is not None
    assert found.fence is expected


def test_the_last_promotion_counts_until_the_topic_is_demoted() -> None:
    assert standing(PROMOTED, fence(), PROMOTED) == ActivePromotion(
        operation_id="o3", promoted_at_ms=3, no_reverse=False, fence=STANDS
    )
    assert standing(PROMOTED, DEMOTED) is None
    assert standing(Promoted(**EAST, topics=None)) is None
    assert standing(Promoted(**WEST, topics=("users",))) is None
    assert standing(PROMOTED, Demoted(**WEST, topics=("users",))) is not None


def test_that_nothing_is_mirrored_back_holds_until_the_topic_is_demoted() -> None:
    alone = Promoted(**WEST, topics=("orders",), no_reverse=True)
    for contents, expected in (
        ([alone], True),
        ([PROMOTED, alone], True),
        ([alone, PROMOTED], True),
        ([alone, DEMOTED, PROMOTED], False),
        ([Promoted(**WEST, topics=("users",), no_reverse=True), PROMOTED], False),
    ):
        found = standing(*contents)
        assert found is not None
        assert found.no_reverse is expected
