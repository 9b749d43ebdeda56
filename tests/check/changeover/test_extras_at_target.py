"""What lies at a cluster that applications left, in front of what came there since; what is on its way does not."""

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from ledger.changeover import seeing
from ledger.facts.direction import Direction, Directions, Promoted
from ledger.store import answers
from ledger.store.snapshots import DeltaSnapshot
from tests.support.seen_pairs import flow

WEST = Promoted(cluster="west", cluster_id="W", former="east", former_id="E", topics=None)
BACK = Direction("west", "east")


def lies(start: int, end: int) -> dict[str, object]:
    where = {"status": "extra", "cluster": "east", "topic": "orders", "partition": 0}
    return {**where, "range_start": start, "range_end": end, "offsets": end - start}


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([lies(3, 5)], {"orders": 2}),
        ([lies(10, 18)], {}),
        ([lies(3, 5), lies(10, 18)], {"orders": 2}),
        ([{**lies(3, 5), "status": "kept_local"}], {}),
    ],
)
def test_copies_in_flight_are_no_extras_however_far_the_flow_is_by_now(
    monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, object]], found: dict[str, int]
) -> None:
    at_cut = {
        "one_sided_records": rows,
        "flow_positions": [{"target_topic": "orders", "source_partition": 0, "target_end": 10}],
    }

    def run_query(_at: object, name: str, _params: object) -> Any:
        return pa.Table.from_pylist(at_cut[name])

    monkeypatch.setattr(answers, "run_query", run_query)
    now = SimpleNamespace(target_topic="orders", partition=0, position=SimpleNamespace(target_offset=20))
    flows = [flow(positions=[now])]
    at = cast(DeltaSnapshot, None)
    assert seeing._extras(at, BACK, flows, Directions(((WEST, "by ana"),))) == found
    assert seeing._extras(at, BACK, flows, Directions()) == {}
