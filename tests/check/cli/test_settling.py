"""`settle` with bad input, and where it may not: a clear message, the documented exit code, nothing recorded."""

import pytest

from tests.support.operated import FLOW, Operated, mark_of_a_gone_process
from tests.support.unreachable import UnreachableFlow

COMMAND = ("settle", FLOW, "--reason", "a fire")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("settle", "nope", "--reason", "a fire"), "nope"),
        (("settle", FLOW), "--reason"),
        ((*COMMAND, "-o", "x"), "x"),
    ],
)
def test_bad_arguments_are_named(
    with_ledger: UnreachableFlow, arguments: tuple[str, ...], named: str
) -> None:
    assert named in with_ledger.refused(*arguments, code=2)


def test_a_flow_that_never_ran_is_refused(with_ledger: UnreachableFlow) -> None:
    assert "has never run: nothing of it can be at west; nothing was settled" in with_ledger.refused(
        *COMMAND, code=5
    )


def test_a_driver_at_work_has_the_flow(at_work: Operated) -> None:
    done = at_work.command(*COMMAND)
    assert done.code == 5
    assert f"flow {FLOW} is being mirrored" in done.err
    assert f"mirror-ledger stop {FLOW}" in done.err


def test_a_target_that_does_not_answer_is_named(idle: Operated) -> None:
    idle.writer("claimed", mark_of_a_gone_process(), epoch=3)
    idle.copied({("orders", 0): 100})
    done = idle.command(*COMMAND)
    assert (done.code, "west" in done.err) == (1, True), done.err
