"""A copy of a ledger in an object store, over a line that is cut and slow, and a ledger restored there."""

import subprocess
import sys
from pathlib import Path

from ledger.clock import SystemClock
from ledger.facts.operations import Why
from ledger.store.comparing import compare_copy
from ledger.store.copying import copy_ledger
from ledger.store.delta_tables import create_tables
from ledger.store.ledger_copy import read_copy
from ledger.store.log import DeltaFactLog
from ledger.store.restoring import EPOCHS_APART, restore_ledger
from ledger.store.session import RECORDER_TABLES
from ledger.store.snapshots import open_ledger
from tests.support.config_files import write_config
from tests.support.drivers import environment
from tests.support.ledger_rows import TABLE, WRITER, watermark
from tests.support.ledgers import claim_of
from tests.support.runs import FLOW
from tests.support.stores import Store

COPY, MADE = "s3://ledgers/copy", "s3://ledgers/made"
CLOCK = SystemClock()


def rows_of(path: str) -> list[int]:
    return [row["round"] for row in open_ledger(path).now().rows(TABLE, [])]


def silent(_line: str) -> None:
    """Nobody reads along."""


def test_a_ledger_is_copied_to_a_store_and_restored_there(s3: Store, tmp_path: Path) -> None:
    config = write_config(tmp_path, {"east": "a:1", "west": "a:2"}, {FLOW: 'topics = ["a"]'}, store=s3)
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=1)
    log = DeltaFactLog(path, CLOCK)
    claimed = log.claim(WRITER, RECORDER_TABLES, {**claim_of(FLOW), "flow": None})
    for number in range(1, 4):
        log.append(claimed, TABLE, number, [watermark(number)])
    copy, _ = copy_ledger(path, COPY, keep_hours=1, clock=CLOCK, progress=silent)
    log.append(claimed, TABLE, 4, [watermark(4)])
    assert rows_of(COPY) == [1, 2, 3]
    assert not any(one.differs for one in compare_copy(path, COPY)[1])

    # Another process reaches the store by a line that refuses, then by one that is slow.
    text = Path(config.file).read_text(encoding="utf-8").replace(s3.path, path)
    over_line = tmp_path / "over-line.toml"
    over_line.write_text(text.replace(s3.address, s3.line.address), encoding="utf-8")
    command = [sys.executable, "-m", "ledger.cli.main", "--config", str(over_line), "ledger", "copy", COPY]
    s3.line.refuse()
    refused = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=400, check=False
    )
    assert (refused.returncode, refused.stdout) == (1, ""), refused.stderr
    assert f"{COPY}/" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert rows_of(COPY) == [1, 2, 3]
    s3.line.accept()
    s3.line.slow(round_trip_s=0.05)
    continued = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=400, check=False
    )
    assert continued.returncode == 0, continued.stderr
    assert read_copy(COPY) is not None
    assert rows_of(COPY) == [1, 2, 3, 4]

    restored = restore_ledger(
        MADE,
        COPY,
        accepted_loss_of=copy.ledger_id,
        why=Why("a fire"),
        operator="ann",
        host="host:1:1:",
        clock=CLOCK,
        progress=silent,
    )
    assert restored.epochs == {WRITER: EPOCHS_APART}
    again = DeltaFactLog(MADE, CLOCK)
    begun = again.claim(WRITER, RECORDER_TABLES, {**claim_of(FLOW), "flow": None})
    again.append(begun, TABLE, 5, [watermark(5)])
    assert rows_of(MADE) == [1, 2, 3, 4, 5]
    copy_ledger(MADE, COPY, keep_hours=1, clock=CLOCK, progress=silent)
    copy_ledger(MADE, str(tmp_path / "home"), keep_hours=1, clock=CLOCK, progress=silent)
    assert rows_of(COPY) == rows_of(str(tmp_path / "home")) == [1, 2, 3, 4, 5]
