"""Watching what groups commit: whether they stand still where they leave, and whether what was set stays.

Consumers that assign partitions to themselves (`assign()`) are no members, so brokers always call their group empty:
only that its commits move tells of them. Before offsets are set elsewhere the commits have to stand still; afterwards
one that leaves its place while the group has no members is such a consumer at work.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ledger.domain.words.count_words import counted
from ledger.operations.groups.beside_outputs import last_commit
from ledger.operations.groups.offset_setting import TargetGroups
from ledger.operations.groups.outcomes import Outcome, Place, Setting
from ledger.operations.groups.position_sheet import PositionSheet
from ledger.ports.clock import Clock
from ledger.ports.clusters import ClusterAdmin


def _nothing_said(_line: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Watch:
    """How long commits have to stand still, how often they are read, and how long is waited for it at most."""

    clock: Clock
    sleep: Callable[[float], None]
    quiet_s: float
    limit_s: float
    poll_s: float = 1.0
    say: Callable[[str], None] = field(default=_nothing_said)

    def readings(self) -> Iterator[float]:
        """The seconds since the first reading, at each reading, until the limit has come."""
        began = self.clock.monotonic()
        while True:
            passed = self.clock.monotonic() - began
            yield passed
            if passed >= self.limit_s:
                return
            self.sleep(min(self.poll_s, max(self.limit_s - passed, 0.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stillness:
    """What was seen of groups at the cluster that they leave, until all stood still or the time was over.

    `moving`: groups whose commits moved in the last `quiet_s` that were watched. `with_members`: groups that have
    members at the end, or of which the cluster does not say.
    """

    cluster: str
    groups: int
    watched_s: float
    moving: frozenset[str]
    with_members: frozenset[str]

    @property
    def busy(self) -> frozenset[str]:
        """Groups that are still at work there, as far as can be seen."""
        return self.moving | self.with_members

    @property
    def words(self) -> str:
        watched = f"{counted(self.groups, 'group')} at {self.cluster}, watched for {self.watched_s:.0f} s"
        if not self.busy:
            return f"{watched}: none has members, and no commit moved"
        without = self.moving - self.with_members
        told = [f"{len(self.with_members)} have members"] if self.with_members else []
        told += [f"{len(without)} commit without members (assign()): {_named(without)}"] if without else []
        return f"{watched}: {', '.join(told)}"

    @property
    def facts(self) -> dict[str, object]:
        return {
            "cluster": self.cluster,
            "groups": self.groups,
            "watched_s": round(self.watched_s, 3),
            "moving": sorted(self.moving),
            "with_members": sorted(self.with_members),
        }


def _named(groups: Collection[str], most: int = 5) -> str:
    rest = len(groups) - most
    return ", ".join(sorted(groups)[:most]) + (f" and {rest} more" if rest > 0 else "")


def watch_stillness(
    source: ClusterAdmin,
    watch: Watch,
    groups: Collection[str],
    share_groups: Collection[str] = (),
    *,
    topics: Collection[str] | None = None,
) -> Stillness:
    """Wait until no commit of the groups has moved for `quiet_s`, and none has members; at most `limit_s`.

    `topics`: only commits of these count, None: all. Raises `ClusterUnavailableError` where the cluster does not
    answer: then nobody knows.
    """
    found = TargetGroups.read(source, groups, share_groups)
    watched_s = 0.0
    moved_at: dict[str, float] = {}

    def moving() -> frozenset[str]:
        return frozenset(group for group, at_s in moved_at.items() if watched_s - at_s < watch.quiet_s)

    for watched_s in watch.readings():
        last, found = found, TargetGroups.read(source, groups, share_groups)
        if moved := _moved(last, found, topics):
            moved_at |= dict.fromkeys(moved, watched_s)
            watch.say(f"commits of {_named(moved)} move at {source.alias}")
        if watched_s >= watch.quiet_s and not moving() and not _with_members(found):
            break
    return Stillness(
        cluster=source.alias,
        groups=len({*groups, *share_groups}),
        watched_s=watched_s,
        moving=moving(),
        with_members=_with_members(found),
    )


def _moved(last: TargetGroups, found: TargetGroups, topics: Collection[str] | None = None) -> frozenset[str]:
    """Groups of which a commit was made, changed or removed between two readings."""
    return frozenset(
        group
        for group, topic, partition in last.committed.keys() | found.committed.keys()
        if topics is None or topic in topics
        if last.committed.get((group, topic, partition)) != found.committed.get((group, topic, partition))
    )


def _with_members(found: TargetGroups) -> frozenset[str]:
    return frozenset(group for group in found.listed if found.has_members(group))


def without_busy(sheet: PositionSheet, busy: Collection[str]) -> PositionSheet:
    """Nothing is to be set for groups that are at work where they leave."""
    return replace(sheet, settings=tuple(_not_busy(one, busy) for one in sheet.settings))


def read_on_since(source: ClusterAdmin, sheet: PositionSheet) -> frozenset[str]:
    """Groups that stand elsewhere at the cluster that they leave than the answers say: nobody has recorded it yet."""
    groups, share_groups = sheet.groups
    now = TargetGroups.read(source, groups, share_groups).committed
    return frozenset(
        one.group_id
        for one in sheet.settings
        if one.outcome is Outcome.TO_BE_SET
        and one.answer["absence"] is None
        and now.get((one.group_id, one.answer["source_topic"], one.answer["source_partition"]))
        != last_commit(one.answer)
    )


def _not_busy(one: Setting, busy: Collection[str]) -> Setting:
    is_hindered = one.outcome is Outcome.TO_BE_SET and one.group_id in busy
    return replace(one, outcome=Outcome.STILL_READING) if is_hindered else one


def is_used(sheet: PositionSheet, synced: Mapping[Place, Collection[int]]) -> bool:
    """Whether a group had a commit at the target before that is not what a driver has `synced`: somebody may commit
    there still, by `assign()`."""
    return any(
        one.former is not None and one.former not in synced.get(one.place, ())
        for one in sheet.settings
        if one.outcome in (Outcome.SET, Outcome.ALREADY_SET)
    )


def watch_kept(target: ClusterAdmin, watch: Watch, sheet: PositionSheet) -> PositionSheet:
    """Whether what was set stays for `quiet_s`: a commit that leaves it while its group has no members is of others.

    A group that has members by now was started, and reads on from where it was set. Raises `ClusterUnavailableError`
    where the target does not answer any more.
    """
    moved: set[Place] = set()
    groups, share_groups = sheet.groups
    for watched_s in watch.readings():
        there = TargetGroups.read(target, groups, share_groups)
        taken = {one.place for one in sheet.settings if _is_taken(one, there)} - moved
        if taken:
            watch.say(f"commits of {_named({place[0] for place in taken})} move at {target.alias}")
        moved |= taken
        if watched_s >= watch.quiet_s:
            break
    return replace(sheet, settings=tuple(_judged(one, moved) for one in sheet.settings))


def _is_taken(one: Setting, there: TargetGroups) -> bool:
    is_placed = one.outcome in (Outcome.SET, Outcome.ALREADY_SET)
    return (
        is_placed
        and there.committed.get(one.place) != one.answer["target_offset"]
        and not there.has_members(one.group_id)
    )


def _judged(one: Setting, moved: Collection[Place]) -> Setting:
    is_moved = one.outcome in (Outcome.SET, Outcome.ALREADY_SET) and one.place in moved
    return replace(one, outcome=Outcome.MOVED_BY_OTHERS) if is_moved else one
