"""A flow's ledger with answers of many kinds."""

from pathlib import Path

import pytest

from tests.support.operated import Operated, operated


@pytest.fixture
def flow(tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_ledger: Path) -> Operated:
    """Ten offsets copied and ten lost; one group in the copied ones, one in the loss, one that has left."""
    made = operated(tmp_path, empty_ledger, capsys)
    made.writer("claimed", "elsewhere:1:1", epoch=1)
    made.copied({("orders", 0): 10, ("orders", 1): 10})
    made.lost("orders", 0, 10, 20)
    made.watermark("orders", 0, end=25)
    for group, offset in (("billing", 4), ("unlucky", 12), ("vanished", 5)):
        made.append("checkpoints", commit(group, offset))
    made.append("checkpoints", {**commit("vanished", None), "absence": "gone", "read_at_ms": 7})
    return made


def commit(group: str, offset: int | None) -> dict[str, object]:
    at = {"cluster": "east", "topic": "orders", "topic_id": "id-of-orders", "partition": 0}
    return {"group_id": group, **at, "committed_offset": offset, "read_at_ms": 1}
