"""Where consumer groups would continue at the other cluster: by direction, by group, by partition."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ledger.answers.ledger import Ledger
from ledger.answers.values import Place
from ledger.errors import PreconditionError
from ledger.facts.groups import GroupEvent, SyncEvent
from ledger.facts.ways import Direction
from ledger.offsets.between_clusters import last_group_syncs, unread_groups_at
from ledger.offsets.setting import OTHER_GROUPS
from ledger.offsets.statuses import TranslationStatus
from ledger.serving.pages import key_of
from ledger.words import counted, duration, shown

MOST_GROUPS, MOST_PLACES = 500, 1_000
SURE = frozenset({TranslationStatus.EXACT, TranslationStatus.AT_END})
"""Statuses at which a group reads neither twice nor less."""


@dataclass(frozen=True, slots=True)
class Way:
    """Groups of one cluster at another. `why_none`: why nobody can say where they would continue; None: it is known.

    `old`: since when nobody has recorded their commits, in words; None: they are as new as they can be. `synced`: by
    flow that keeps groups at its target, how many have a commit there that it made and read back. `unread`: by group of
    the source why its recorder was refused what it has committed; of groups that nobody may know of: `OTHER_GROUPS`.
    """

    direction: Direction
    places: tuple[Place, ...]
    why_none: str | None
    old: str | None
    synced: tuple[tuple[str, int], ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)


def read_groups(ledger: Ledger) -> tuple[Way, ...]:
    """Of each pair of clusters that a flow goes between."""
    ways = dict.fromkeys(Direction(flow.source, flow.target) for flow in ledger.config.flows.values())
    return tuple(_read(ledger, way) for way in ways)


def _read(ledger: Ledger, way: Direction) -> Way:
    synced = tuple(
        (flow.name, _synced(ledger, flow.name, way.target))
        for flow in ledger.config.flows.values()
        if flow.sync_groups and Direction(flow.source, flow.target) == way
    )
    unread = unread_groups_at(ledger.snapshot, way.source)
    try:
        places = ledger.translate(way.source, way.target).rows
    except PreconditionError as error:
        return Way(way, (), "; ".join(error.lines), None, synced, unread)
    return Way(way, places, None, ledger.old_commits(way.source), synced, unread)


def _synced(ledger: Ledger, flow: str, target: str) -> int:
    rows = last_group_syncs(ledger.snapshot, target, flow)
    return len({row["group_id"] for row in rows if row["event"] == SyncEvent.SYNCED})


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group as a table has it: by status how many partitions, and what it would read again in all."""

    group: str
    href: str
    statuses: tuple[tuple[str, int], ...]
    is_sure: bool
    repeated: str
    ahead: str


@dataclass(frozen=True, slots=True)
class WayPage:
    """A direction; `left_out`: how many groups are in no line, `unread`: of how many nobody knows where they stand.

    `command` names these.
    """

    source: str
    target: str
    groups: tuple[GroupLine, ...]
    left_out: int
    why_none: str | None
    old: str | None
    unread: tuple[str, ...]
    command: str


@dataclass(frozen=True, slots=True)
class PlaceLine:
    """A partition of a group. What is not known is a word."""

    topic: str
    partition: int
    committed: str
    target: str
    status: str
    repeated: str
    read: str


@dataclass(frozen=True, slots=True)
class GroupPage:
    """A group in one direction."""

    group: str
    source: str
    target: str
    places: tuple[PlaceLine, ...]
    left_out: int


def way_pages(ways: tuple[Way, ...]) -> Iterator[WayPage]:
    """Of each direction; groups that would not continue where they are first."""
    for way in ways:
        lines = sorted(_lines(way), key=lambda one: (one.is_sure, one.group))
        yield WayPage(
            way.direction.source,
            way.direction.target,
            tuple(lines[:MOST_GROUPS]),
            max(0, len(lines) - MOST_GROUPS),
            None if way.why_none is None else shown(way.why_none),
            None if way.old is None else shown(way.old),
            tuple(_unread_words(way)),
            f"mirror-ledger query cluster_groups --param cluster={way.direction.source}",
        )


def _unread_words(way: Way) -> Iterator[str]:
    for status, number in unread_groups(way):
        if number:
            yield f"{counted(number, 'group')} {status}"
    if other := way.unread.get(OTHER_GROUPS):
        yield f"others: {other.replace('_', ' ')}"


def _lines(way: Way) -> Iterator[GroupLine]:
    for group, places in _by_group(way).items():
        counts = Counter(str(one.status) for one in places)
        yield GroupLine(
            shown(group),
            f"/groups/{_key(way, group)}",
            tuple((status.replace("_", " "), number) for status, number in sorted(counts.items())),
            is_sure=all(one.status in SURE for one in places),
            repeated=_total([one.repeated for one in places if one.target_offset is not None]),
            ahead=_total([one.ahead for one in places if one.target_offset is not None]),
        )


def _by_group(way: Way) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for one in way.places:
        if one.group_id is not None:
            found.setdefault(one.group_id, []).append(one)
    return found


def _key(way: Way, group: str) -> str:
    return key_of(way.direction.source, way.direction.target, group)


def _total(numbers: list[int | None]) -> str:
    known = [one for one in numbers if one is not None]
    if len(known) < len(numbers) or not numbers:
        return "unknown"
    return f"{sum(known):,}"


def group_page(ways: tuple[Way, ...], key: str, *, at_ms: int) -> GroupPage | None:
    """The group of an address; None: there is none."""
    for way in ways:
        for group, places in _by_group(way).items():
            if _key(way, group) == key:
                return GroupPage(
                    shown(group),
                    way.direction.source,
                    way.direction.target,
                    tuple(_place(one, at_ms) for one in places[:MOST_PLACES]),
                    max(0, len(places) - MOST_PLACES),
                )
    return None


def _place(one: Place, at_ms: int) -> PlaceLine:
    there = "none" if one.target_offset is None else f"{one.target_offset:,}"
    name = "" if one.target_topic is None else f"{one.target_topic} "
    return PlaceLine(
        topic=shown(one.source_topic),
        partition=one.source_partition,
        committed="none" if one.committed_offset is None else f"{one.committed_offset:,}",
        target=shown(f"{name}{there}"),
        status=str(one.status).replace("_", " "),
        repeated="unknown" if one.repeated is None else f"{one.repeated:,}",
        read="unknown"
        if one.first_read_at_ms is None
        else f"{duration(max(0, at_ms - one.first_read_at_ms) // 1000)} ago",
    )


def counted_statuses(ways: tuple[Way, ...]) -> Iterator[tuple[Direction, str, int]]:
    """By direction and status how many partitions of groups."""
    for way in ways:
        counts = Counter(str(one.status) for one in way.places if one.group_id is not None)
        for status in TranslationStatus:
            if counts[str(status)]:
                yield way.direction, str(status), counts[str(status)]


def unread_groups(way: Way) -> Iterator[tuple[str, int]]:
    """By status how many groups of the source a recorder could not read; no 0 where there may be others."""
    counts = Counter(status for group, status in way.unread.items() if group != OTHER_GROUPS)
    for status in (GroupEvent.HIDDEN, GroupEvent.UNAVAILABLE):
        if counts[status] or OTHER_GROUPS not in way.unread:
            yield str(status), counts[status]


def repeated_records(way: Way) -> int | None:
    """What all groups would read again; None: nobody knows of one that has a place, or groups cannot be placed."""
    found = [one.repeated for one in way.places if one.group_id is not None and one.target_offset is not None]
    if way.why_none is not None or None in found:
        return None
    return sum(one for one in found if one is not None)
