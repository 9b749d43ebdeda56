"""The findings about what a run has beside its clusters: raised once, cleared once, also by a later driver."""

from ledger.facts.findings import FindingName, Findings
from ledger.mirror.watches import RUN_FINDINGS, RunWatch
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeClock
from tests.support.operation_logs import claimed

FLOW = "f"
KEY = ("recording_stopped", None, None)


class Watched:
    """A driver that begins now."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.state = MemoryLedgerState(ledger)
        self.troubles: dict[str, str] = {}
        operations = claimed(MemoryFactLog(ledger, FakeClock()), FLOW)
        findings = Findings(FLOW, RUN_FINDINGS, operations, self.state)
        self.watch = RunWatch(findings, {FindingName.RECORDING_STOPPED: lambda: self.troubles})

    def after(self, **troubles: str) -> frozenset[object]:
        self.troubles = troubles
        self.watch.check()
        return frozenset(self.state.open_findings(FLOW))


def test_raised_and_cleared_once() -> None:
    ledger = MemoryLedger()
    driver = Watched(ledger)
    assert driver.after() == frozenset()
    assert driver.after(east="the store timed out") == {KEY}
    assert driver.after(east="the store timed out, again") == {KEY}
    assert driver.after() == frozenset()
    assert [row["kind"] for row in ledger.rows("operations")] == ["finding_raised", "finding_cleared"]
    assert "east: the store timed out" in ledger.rows("operations")[0]["content"]


def test_a_later_driver_clears_what_an_earlier_one_raised() -> None:
    ledger = MemoryLedger()
    assert Watched(ledger).after(east="the store timed out") == {KEY}
    assert Watched(ledger).after() == frozenset()
