"""Extras of a compacted topic are replicated: of each key the newest record lies last, at both sides.

Over clusters in memory, with the program's own steps, and applications that write in the middle of it.
"""

from ledger.changeover.plans import ChangeoverKind
from tests.support.failbacks import BACK
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
    values,
)


def test_what_has_a_newer_record_of_its_key_stays_and_what_is_overtaken_meanwhile_is_newest_again() -> None:
    pair = lost_and_back()
    ends = Ends(("offset_syncs copied",))
    acts = once(is_begun, lambda: pair.put(pair.west, USERS, b"a", b"meanwhile-a"))
    pair.apply_by_many(pair.plan(ChangeoverKind.FAILBACK, REPLICATE, way=BACK), before=ends, behind=acts)
    assert ends.at.total() == 1, "a process has ended when copies were there and not recorded"
    assert decided(pair) == {("keep_local", "overtaken"): 2}, "and what rows claim is no extra any more"
    first, *others = repaired(pair)
    assert (len(first), others) == (1, [[]]), "one record is listed, and appended once"
    at_west = values(pair.west)
    assert (at_west["extra-a"], at_west["extra-n"], at_west["meanwhile-a"]) == (1, 1, 2)
    assert (at_west["extra-b"], at_west["extra-d"]) == (0, 0)
    assert lasts(pair.east) == lasts(pair.west)
    assert lasts(pair.east) == {
        **{b"a": "meanwhile-a", b"b": "newer-b", b"c": None, b"d": None, b"n": "extra-n", b"t": "first-t"}
    }
    assert pair.put(pair.east, USERS, b"z", b"home-z")
    pair.schedule.spawn("supervisor", pair.forward.supervise)
    pair.until(lambda: pair.is_copied, "east is mirrored again, past what stays there")
    assert lasts(pair.east) == lasts(pair.west)
    assert values(pair.west)["extra-d"] == 0
    pair.end()
