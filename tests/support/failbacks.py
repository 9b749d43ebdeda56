"""A pair of clusters in memory of which one is lost and comes back with records that were never copied."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from ledger.changeover.plans import ChangeoverKind
from tests.support.changing_pairs import FAILOVER, GROUPS, SWITCHOVER, ChangingPair, in_ledger
from tests.support.operator_processes import ProcessEnded, Strikes

HOME = replace(SWITCHOVER, extras=("keep",), within=0)
RECREATE = replace(HOME, extras=("recreate",))
BACK = ("west", "east")
Placed = tuple[str, int, str]


def is_of_recreating(write: str) -> bool:
    return any(word in write for word in ("topic_recreated", "delete topic", "create topic"))


def with_extras(more_topics: Sequence[str] = ()) -> tuple[ChangingPair, list[Placed]]:
    pair = ChangingPair(more_topics)
    return pair, lose_and_return(pair)


def with_deficits(lost: Mapping[tuple[str, int], int]) -> tuple[ChangingPair, list[Placed]]:
    """The same, and it has lost so many records of partitions."""
    pair = ChangingPair()
    return pair, lose_and_return(pair, lost)


def lose_and_return(pair: ChangingPair, lost: Mapping[tuple[str, int], int] | None = None) -> list[Placed]:
    """East is lost with a driver that has not recorded its last two records, applications move to west, and east is
    back with three records that it alone has, which are returned."""
    pair.destination = pair.west
    pair.lose_east(with_driver=True)
    pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER))
    pair.return_of_east(extras=3, lost=lost)
    pair.destination = pair.east
    return [(*place, values[-1]) for place, values in pair.values(pair.east).items()]


def require_lost_comes_back(lost: Mapping[tuple[str, int], int], behind: Strikes) -> None:
    """In the order in which it lies at west; processes end behind the writes."""
    pair, extras = with_deficits(lost)
    assert set(pair.failback_blockers(HOME)) == {"deficits"}
    pair.apply_by_many(
        pair.plan(ChangeoverKind.FAILBACK, replace(HOME, deficits=("return",)), way=BACK), behind=behind
    )
    require_home(pair, extras)
    for place, at_east in pair.values(pair.east).items():
        own = [one for one in at_east if (*place, one) not in extras]
        assert own == pair.values(pair.west)[place], "in the order of west"


def require_continued_by_a_new_plan(write: str) -> None:
    """A process ends behind a write of creating topics again, and nobody applies its plan any more."""
    pair, extras = with_extras()
    plan = pair.plan(ChangeoverKind.FAILBACK, RECREATE, way=BACK)
    with pytest.raises(ProcessEnded):
        pair.apply(plan, pair.outside.process(behind=lambda name: write in name))
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, RECREATE, way=BACK))
    require_home(pair, [], given_up=extras)


def require_home(
    pair: ChangingPair,
    extras: Collection[Placed],
    given_up: Collection[Placed] = (),
    left: Collection[Placed] = (),
) -> None:
    """Each record that applications wrote is at both sides once, and groups have processed it once; but for `extras`,
    which stay at east alone, for those that are `left` at west, and for those that were `given_up`."""
    require_mirrored(pair, extras, given_up, left)
    pair.end()


def require_mirrored(
    pair: ChangingPair,
    extras: Collection[Placed],
    given_up: Collection[Placed] = (),
    left: Collection[Placed] = (),
) -> None:
    pair.schedule.spawn("supervisor", pair.forward.supervise)
    pair.until(lambda: pair.is_copied, "east is mirrored again")
    written = sorted({*pair.taken} - {*extras} - {*given_up})
    assert len({*pair.taken}) == len(pair.taken), "each is another one"
    assert sorted(placed(pair, pair.west)) == written, "west has each record that was written once"
    assert sorted(placed(pair, pair.east)) == sorted({*written, *extras} - {*left}), "and so has east"
    for group in GROUPS:
        assert sorted(pair.processed[group]) == written, f"{group} has processed each record once"


def placed(pair: ChangingPair, cluster: object) -> list[Placed]:
    assert cluster in (pair.east, pair.west)
    return all_of(pair.values(pair.east if cluster is pair.east else pair.west))


def all_of(values: Mapping[tuple[str, int], Sequence[str]]) -> list[Placed]:
    return [(*place, one) for place, found in values.items() for one in found]


def lose_west(pair: ChangingPair) -> str:
    """West is lost with all that was written there since applications came, and they go to east; the operation's id."""
    pair.stop_groups()
    pair.west.available = False
    pair.schedule.wait(3.0)
    pair.destination = pair.east
    return pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER, way=BACK))


def require_west_lost(pair: ChangingPair, moved: str) -> None:
    """Lost is what was written at west alone, and was counted; groups have processed all of east, once but for what a
    dead driver had copied."""
    at_east, at_west = placed(pair, pair.east), placed(pair, pair.west)
    alone = [one for one in at_west if one not in at_east]
    figures = in_ledger(pair, moved)["ended"]["figures"]
    assert (figures["records_lost"], figures["records_at_least"]) == (len(alone), len(alone)), figures
    tail = {("orders", 0, "east-12"), ("orders", 0, "east-13")}
    for group in GROUPS:
        here = [one for one in pair.processed[group] if one in at_east]
        assert set(here) == set(at_east), group
        assert {one for one in here if here.count(one) > 1} <= tail
