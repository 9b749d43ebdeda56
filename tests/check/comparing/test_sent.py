"""`compare` without reading: what the ledger knows of what was sent."""

import json
from pathlib import Path

import pytest

from tests.support.operated import FLOW, operated, own_mark


def test_records_with_a_recorded_checksum_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], empty_ledger: Path
) -> None:
    """Not those of a row of which a part does not hold any more: its checksum is of all that was sent."""
    flow = operated(tmp_path, empty_ledger, capsys)
    flow.writer("claimed", own_mark(), epoch=1)
    flow.copied({("orders", 0): 100, ("orders", 1): 40}, checksum=7)
    flow.copied({("adopted", 0): 5})
    for partition, end in ((0, 130), (1, 60)):
        start = 100 if partition == 0 else 40
        later = {"kind": "copied", "cause": None, "records": end - start, "target_end": end, "checksum": 9}
        flow.lost("orders", partition, start, end, **later)
    flow.lost("orders", 1, 50, 50, kind="superseded", cause="requested", target_start=60, target_end=60)
    done = flow.command("compare", FLOW, "-o", "json")
    assert done.code == 4, done.err
    found = {(row["source_topic"], row["partition"]): row for row in json.loads(done.out)}
    assert {at: (row["mapped"], row["checksummed"], row["same"]) for at, row in found.items()} == {
        ("adopted", 0): (5, 0, None),
        ("orders", 0): (130, 130, None),
        ("orders", 1): (50, 40, None),
    }
