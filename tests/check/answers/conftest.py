"""A flow's ledger with answers of many kinds."""

from pathlib import Path

import pytest

from tests.support.ledger_rows import copied_to
from tests.support.operated import LaterClock, Operated, WrittenLedger, operated_copy


@pytest.fixture
def flow(written: WrittenLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operated:
    """The flow with a copy of its ledger, and a sign of its driver: however long ago it was written, that is alive."""
    made = operated_copy(tmp_path, written, capsys)
    made.writer("alive", "elsewhere:1:1", epoch=1, round_number=1)
    return made


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, empty_ledger: Path) -> WrittenLedger:
    """Ten offsets copied and ten lost; one group in the copied ones, one in the loss, one that has left."""
    made = WrittenLedger(copied_to(tmp_path_factory.mktemp("written"), empty_ledger), LaterClock())
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
