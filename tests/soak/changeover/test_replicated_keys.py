"""Processes that replicate extras of a compacted topic end at every write, over clusters in memory."""

import pytest

from ledger.changeover.plans import ChangeoverKind
from tests.support.failbacks import BACK
from tests.support.replicated_keys import REPLICATE, USERS, Ends, is_begun, lasts, lost_and_back, once, values


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
