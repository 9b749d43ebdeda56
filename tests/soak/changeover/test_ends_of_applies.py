"""Whatever write a process of an operator ends behind, or before, an apply and an undo come to the end of one alone.

Each kind of change of sides is carried out over clusters in memory by the program's own steps: once by one process,
then by processes that end behind some of its writes, behind all of them, and before all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ledger.changeover.plans import ChangeoverKind, Choices, FenceChoice, StepName
from tests.support.changing_pairs import (
    FAILOVER,
    SWITCHOVER,
    ChangingPair,
    at_clusters,
    came_to,
    copied_back,
    in_ledger,
)
from tests.support.operator_processes import OnceAtEach, ProcessEnded, Strikes, never

_PARTS = 5
"""Of so many writes one ends a process: each is tried beside others that do not."""


@dataclass(frozen=True, slots=True)
class Change:
    """`lost`: what is dead when it begins, in words."""

    name: str
    kind: ChangeoverKind
    choices: Choices
    lost: str = ""

    def pair(self) -> ChangingPair:
        pair = ChangingPair()
        if self.lost:
            pair.lose_east(with_driver="driver" in self.lost)
        return pair


SHUT = replace(
    SWITCHOVER,
    fence=FenceChoice.SHUT,
    producers_stopped=True,
    quiet_seconds=0.5,
    most_quiet_seconds=1.0,  # records of these tests are so small that they would pass
)
CHANGES = (
    Change("closed", ChangeoverKind.SWITCHOVER, SWITCHOVER),
    Change("closed, with markers", ChangeoverKind.SWITCHOVER, replace(SWITCHOVER, abort_marker=True)),
    Change("shut", ChangeoverKind.SWITCHOVER, SHUT),
    Change("source lost", ChangeoverKind.FAILOVER, FAILOVER, "source"),
    Change("both lost", ChangeoverKind.FAILOVER, replace(FAILOVER, abort_marker=True), "source and driver"),
)


def applied(change: Change, *, before: Strikes = never, behind: Strikes = never) -> dict[str, Any]:
    """All that the change came to, and what is copied back, or not, afterwards."""
    pair = change.pair()
    plan = pair.plan(change.kind, change.choices)
    operation_id = pair.apply_by_many(plan, before=before, behind=behind)
    came = came_to(pair, operation_id)
    at_west = came["values"]["west"]
    if change.lost:
        pair.return_of_east(extras=3)
    else:
        pair.write_at_east_past_all_rules()
    came["back"] = copied_back(pair, operation_id)
    assert pair.values(pair.west) == at_west, "the forward driver has written behind the promotion"
    pair.end()
    return came


def undone(change: Change, *, before: Strikes = never, behind: Strikes = never) -> dict[str, Any]:
    """What is left of the change, which was undone before applications were started."""
    pair = change.pair()
    there = at_clusters(pair)
    plan = pair.plan(change.kind, change.choices)
    is_started = f"ledger: apply operations step_begun {StepName.START_APPLICATIONS}"
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(before=lambda write: write == is_started))
    found = pair.applied(plan)
    assert found is not None
    pair.undo_by_many(found.operation_id, before=before, behind=behind)
    assert at_clusters(pair) == there
    told = in_ledger(pair, found.operation_id)
    assert not any(told["directions"].values())
    assert (told["fences"], told["shut out"]) == ([], frozenset())
    pair.end()
    came = {name: told[name] for name in ("rows", "directions", "settled", "cut")}
    return {
        **came,
        "steps": set(told["undone"]["steps"]),
        "handed back": told["undone"]["steps"]["hand_over"],
    }


def require_same(found: Mapping[str, Any], alone: Mapping[str, Any], ended_at: object) -> None:
    found, alone = without_times(found), without_times(alone)
    unlike = {name: (found[name], alone[name]) for name in alone if found[name] != alone[name]}
    assert not unlike, f"ended at {ended_at}"


def without_times(came: Any) -> Any:
    """Without how long steps took: who begins one again does not count what others waited for."""
    if isinstance(came, dict):
        return {name: without_times(value) for name, value in came.items() if name != "took"}
    return came


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
@pytest.mark.parametrize("act", [applied, undone])
def test_ends_at_every_write_come_to_the_end_of_one_alone(change: Change, act: Any) -> None:
    writes: list[str] = []

    def heard(write: str) -> bool:
        if write not in writes:
            writes.append(write)
        return False

    alone = act(change, behind=heard)
    assert len(writes) > 20, writes
    parts = [OnceAtEach(set(writes[number::_PARTS]).__contains__) for number in range(_PARTS)]
    for ends in (*parts, OnceAtEach()):
        require_same(act(change, behind=ends), alone, ends.ended_at)
    assert {name for part in parts for name in part.ended_at} == set(writes)
    ends = OnceAtEach()
    require_same(act(change, before=ends), alone, ends.ended_at)
