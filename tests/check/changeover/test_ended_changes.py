"""After a change of direction nothing advises what it did: `status` names the command that starts the driver."""

import pytest

from ledger.answers.flow_status import report_flow
from ledger.answers.status import FlowReport
from ledger.answers.text import render_report
from ledger.changeover.plans import ChangeoverKind
from ledger.serving.pages import FlowPage, flow_page
from tests.simulation.ledger.opened import OpenedSnapshot
from tests.support.changing_pairs import FORWARD, ChangingPair
from tests.support.failbacks import BACK, HOME, require_home, with_extras

pytestmark = pytest.mark.long


def report(pair: ChangingPair) -> FlowReport:
    """Of the flow from east."""
    at = OpenedSnapshot(pair.ledger)
    return report_flow(pair.config, at, FORWARD, at_ms=pair.schedule.now_ms(), is_now=False)  # type: ignore[arg-type]


def status(pair: ChangingPair) -> str:
    """What `status` prints of it."""
    return " ".join(render_report(report(pair)).split())


def page(pair: ChangingPair) -> FlowPage:
    """What its page shows."""
    return flow_page(pair.config, report(pair))


def test_after_a_failback_one_command_brings_the_mirror_home() -> None:
    """It is carried out at the end: the driver starts without a cut of its own."""
    pair, extras = with_extras()
    pair.schedule.wait(3.0)
    assert "west is promoted over east" in status(pair)
    assert {line.state for line in page(pair).partitions} == {"stopped: promoted"}
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK))
    pair.drivers_end()
    said = status(pair)
    assert {line.state for line in page(pair).partitions} == {"released"}
    assert said.count("mirror-ledger run east-to-west") == 1, said
    assert (
        "3 partitions stopped for a direction that holds no more; next: mirror-ledger run east-to-west"
        in said
    ), said
    assert "--from-cut" not in said, "the cut is kept"
    assert "plan failback" not in said, said
    assert "applications write there" not in said, said
    require_home(pair, extras)
