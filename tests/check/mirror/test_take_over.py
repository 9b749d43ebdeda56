"""When a driver may start on a flow that another one has claimed: the rule as a table."""

import pytest

from ledger.config.values import FlowConfig
from ledger.errors import PreconditionError
from ledger.facts.roles import LastClaim, ProcessMark
from ledger.roles import require_free
from tests.support.fakes import FakeProcesses

FLOW = FlowConfig(name="f", source="a", target="b", topics=("t",), heartbeat_seconds=1, round_seconds=1)
HERE, ELSEWHERE = ProcessMark("host-a", 11, 5), ProcessMark("host-b", 11, 5)


def start(mark: ProcessMark, *, released: bool, alive: bool, silent_ms: int) -> None:
    claim = LastClaim(7, str(mark), released, 10_000, 5_000)
    processes = FakeProcesses(alive={mark} if alive else set())
    require_free(FLOW, claim, processes, now_ms=10_000 + silent_ms)


@pytest.mark.parametrize(
    ("mark", "released", "alive", "silent_ms"),
    [
        (HERE, True, True, 0),
        (HERE, False, False, 0),
        (HERE, False, False, 9_000),
        (ELSEWHERE, True, False, 0),
        (ELSEWHERE, False, False, 3_000),
    ],
)
def test_free(mark: ProcessMark, released: bool, alive: bool, silent_ms: int) -> None:
    start(mark, released=released, alive=alive, silent_ms=silent_ms)


@pytest.mark.parametrize(
    ("mark", "alive", "silent_ms"),
    [(HERE, True, 0), (HERE, True, 3_600_000), (ELSEWHERE, False, 0), (ELSEWHERE, False, 2_999)],
)
def test_in_use(mark: ProcessMark, alive: bool, silent_ms: int) -> None:
    with pytest.raises(PreconditionError, match=r"epoch 7 by process 11 on host host-.*--take-over") as told:
        start(mark, released=False, alive=alive, silent_ms=silent_ms)
    assert mark.host in str(told.value)
    assert "nothing was copied" in str(told.value)


def test_a_flow_that_never_ran_is_free() -> None:
    require_free(FLOW, None, FakeProcesses(), now_ms=0)
