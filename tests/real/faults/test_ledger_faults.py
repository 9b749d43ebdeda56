"""The ledger is all that a driver has: lost local state costs nothing, an older copy of it is noticed."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ledger.sandbox import SandboxCluster
from tests.real.faults.test_driver_faults import assert_faithful, finish
from tests.support.flows import FaultFlow, make_flow, produce


@pytest.fixture
def flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FaultFlow]:
    with make_flow(broker_pair, tmp_path, "ledger-faults") as made:
        yield made
    print(made.log.read_text(encoding="utf-8")[-4000:] if made.log.exists() else "no driver was started")


@pytest.mark.fault(36, 37)
def test_a_restored_older_ledger_is_brought_up_to_date_or_refuses(flow: FaultFlow, tmp_path: Path) -> None:
    path, empty, older = Path(flow.config.ledger.path), tmp_path / "empty", tmp_path / "older"
    shutil.copytree(path, empty)
    produce(flow, 300)
    finish(flow)
    shutil.copytree(path, older)
    produce(flow, 300, start=300)
    finish(flow)

    shutil.rmtree(path)
    older.rename(path)
    produce(flow, 300, start=600)
    finish(flow)
    assert_faithful(flow, at_least=900)
    assert sum(int(str(row["recovered_rows"])) for row in flow.query("flow_status", flow="flow")) > 0

    shutil.rmtree(path)
    empty.rename(path)
    driver = flow.start("--until-caught-up")
    try:
        assert driver.wait() == 4, "whose the target's records are cannot be proved any more"
    finally:
        driver.end()
    assert flow.target_records() == 900, "nothing was written"
    assert {row["stop_cause"] for row in flow.query("flow_status", flow="flow")} == {"foreign_write"}
