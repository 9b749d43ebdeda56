"""Extras of a compacted topic are replicated: of each key the newest record lies last, at both sides.

Over clusters in memory, with the program's own steps, and applications that write in the middle of it.
"""

from dataclasses import replace

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
