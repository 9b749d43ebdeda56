"""Processes that replicate extras of a compacted topic end at every write, over clusters in memory."""

from dataclasses import replace

import pytest

from ledger.changeover.plans import ChangeoverKind
from tests.support.failbacks import BACK, HOME
from tests.support.operator_processes import OnceAtEach
from tests.support.replicated_keys import (
    REPLICATE,
    USERS,
    Ends,
    decided,
    is_begun,
    lasts,
    lost_and_back,
    once,
    repaired,
    returning,
    values,
    with_deficits_of_keys,
)


@pytest.mark.parametrize("is_before", [True, False])
def test_processes_that_end_at_every_write_leave_no_key_behind_and_copy_nothing_twice(
    is_before: bool,
) -> None:
    pair = lost_and_back()
    # Behind the mark nothing of the key would have been copied yet: it would be overtaken.
    of_flow = ("flow:east-to-west",) if is_before else ("offset_syncs copied", "writers")
    ends = Ends((*of_flow, "keys_repaired", "mirror_let_in", "mirror_shut_out"))
    acts = once(is_begun, lambda: pair.put(pair.west, USERS, b"a", b"meanwhile-a"))
    plan = pair.plan(ChangeoverKind.FAILBACK, REPLICATE, way=BACK)
    if is_before:
        pair.apply_by_many(plan, before=ends, behind=acts)
    else:
        pair.apply_by_many(plan, behind=lambda write: acts(write) or ends(write))
    assert len(ends.at) > 5, ends.at
    assert {"keys_repaired", "mirror_shut_out", "copied"} <= {write.split()[3] for write in ends.at}
    at_west = values(pair.west)
    assert (at_west["extra-a"], at_west["extra-n"], at_west["extra-b"]) == (1, 1, 0), at_west
    assert lasts(pair.east) == lasts(pair.west)
    assert lasts(pair.west)[b"a"] == "meanwhile-a"
    pair.end()


def test_where_a_tombstone_may_have_been_removed_nothing_is_copied_and_that_is_listed() -> None:
    pair = lost_and_back(lasts_ms=1_000)
    pair.west.log(*USERS).compact(pair.west.log(*USERS).end)
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, REPLICATE, way=BACK))
    assert decided(pair) == {("keep_local", "overtaken"): 2, ("keep_local", "unknown"): 3}
    assert repaired(pair) == []
    differing = {key for key, value in lasts(pair.east).items() if lasts(pair.west).get(key) != value}
    assert differing == {b"a", b"c", b"n"}, "those that are listed, and no other"
    pair.end()


def test_a_log_in_which_nothing_was_removed_shows_every_tombstone_however_old() -> None:
    pair = lost_and_back(lasts_ms=1)
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, REPLICATE, way=BACK))
    assert decided(pair) == {("keep_local", "overtaken"): 2, ("replicate", None): 3}
    assert lasts(pair.east) == lasts(pair.west)
    pair.end()


def test_what_was_lost_returns_but_for_what_something_newer_of_its_key_lies_behind() -> None:
    """A copy of that lies at west, or east alone has it: of `t` nothing newer is anywhere."""
    pair = with_deficits_of_keys()
    choices = replace(HOME, deficits=("return",))
    ends = OnceAtEach(lambda write: "deficits_decided" in write)
    pair.apply_by_many(pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK), behind=ends)
    assert len(ends.ended_at) == 1
    assert returning(pair) == {("return", None): 1, ("stay", "overtaken"): 2}
    at_east = values(pair.east)
    assert (at_east["first-t"], at_east["first-c"], at_east["first-d"]) == (1, 0, 0)
    assert {key: value for key, value in lasts(pair.east).items() if lasts(pair.west)[key] != value} == {
        b"c": "extra-c"
    }, "that was to stay at east"
    assert lasts(pair.east)[b"d"] == "newer-d"
    pair.end()
