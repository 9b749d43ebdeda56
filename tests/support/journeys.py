"""A life of clusters and groups that move between them, and what has to hold of it in every topology.

No group skips a record, each reads again what it was promised, and something happens.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from ledger.facts.group_offsets import IntendedCommit, OffsetsSet
from ledger.facts.syncs import OffsetRange
from ledger.offsets.first_unread import Place, PlaceStatus
from ledger.offsets.setting import seen_at
from ledger.sandbox import SandboxCluster
from tests.support.between_clusters import (
    Clusters,
    Habit,
    Recorded,
    Records,
    Traveller,
    at_once,
    clusters_of,
    written_to,
)
from tests.support.pair_ledgers import Log
from tests.support.topologies import FAN_IN, MESH, SHARED, Topic, Topology

TWO_WAYS = (SHARED, MESH)
"""Where one flow mostly cannot know: its answers are `mirrored`."""
MOVED = (Habit.RETURNS, Habit.RETURNS_UNSEEN, Habit.RESTS)


@dataclass(frozen=True)
class Arrival:
    """A group at a partition of the other side, at last: what it had read, what lies there, what it got there."""

    group: Traveller
    here: Log
    there: Log
    place: Place
    read: frozenset[bytes]
    lies_here: Records
    lies_there: Records
    """Those for the group are in `wanted`; those that are here, or are to come here, are `carried`."""
    carried: Records
    wanted: Records
    got: Records
    offset_by_one_flow: int | None
    """What the flow from here to there answers alone, where it does."""

    @property
    def passed_by_one_flow(self) -> set[bytes]:
        """Unread records below that answer."""
        offset = self.offset_by_one_flow or 0
        return {record for at, record in self.carried.items() if at < offset} - self.read

    @property
    def skipped(self) -> set[bytes]:
        return set(self.wanted.values()) - self.read - set(self.got.values())

    @property
    def unread(self) -> set[int]:
        return {offset for offset, record in self.wanted.items() if record not in self.read}

    @property
    def of_others(self) -> set[int]:
        """What it got that no flow carries between the two."""
        return self.got.keys() - self.carried.keys()

    @property
    def in_doubt(self) -> set[int]:
        """Records of others that may be carried and unread, as far as the ledger can tell, and are not."""
        return self.held(self.place.unread) - self.carried.keys() - self.unread

    @property
    def read_again(self) -> set[int]:
        return {offset for offset in self.got if offset in self.wanted} - self.unread - self.in_doubt

    def held(self, ranges: tuple[OffsetRange, ...]) -> set[int]:
        """Offsets of the ranges there that hold records."""
        return {offset for start, end in ranges for offset in range(start, end) if offset in self.lies_there}


def assert_nobody_skips(
    topology: Topology, clusters: Mapping[str, SandboxCluster], spark: SparkSession, folder: Path, seed: int
) -> None:
    """What happens is by a seed, which is printed: writes, which flows run, where groups stop."""
    print(f"MIRROR_LEDGER_SEED={seed}")
    made = clusters_of(topology, clusters, spark, folder, random.Random(seed))
    arrivals = list(arrived(made))
    for one in arrivals:
        assert_kept(topology, one)
        assert not one.passed_by_one_flow, one
    assert_something_happened(topology, arrivals)


# What happens ------------------------------------------------------------------------------------


def arrived(made: Clusters) -> Iterator[Arrival]:
    """All groups at the other side, after a life of the clusters in which some have moved before."""
    groups = list(groups_of(made))
    made.write()
    assert made.copy(made.topology.flows) > 0
    made.write()
    read_on(made, groups)
    made.copy(made.some_flows())
    made.write()
    move_away(made, [group for group in groups if group.habit in MOVED])
    read_on(made, [group for group in groups if group.habit is not Habit.RESTS])
    made.write()
    made.copy(made.some_flows())
    made.write()
    recorded, logs = made.record(), made.logs()
    single = recorded.places_by_one_flow()
    for found in at_once(lambda group: list(go_over(made, recorded, logs, group, single)), groups):
        yield from found


def groups_of(made: Clusters) -> Iterator[Traveller]:
    """On each side of the first trip one of each habit, of the others the two that have most to tell."""
    for number, trip in enumerate(made.topology.trips):
        for side in (0, 1):
            for habit in (Habit.STAYS, Habit.RETURNS) if number else Habit:
                yield Traveller(f"{made.topic}-{number}-{trip[0][side].cluster}-{habit}", trip, side, habit)


def read_on(made: Clusters, groups: list[Traveller]) -> None:
    ends = {log: max(records, default=-1) + 1 for log, records in made.logs().items()}
    reading = [group for group in groups if group.habit is not Habit.IDLES]
    stops = {group.name: made.stops(group, ends) for group in reading}
    at_once(lambda group: made.read_on(group, stops[group.name]), reading)


def move_away(made: Clusters, groups: list[Traveller]) -> None:
    """By what the ledger answers; of moves that were recorded it is to know."""
    recorded, logs = made.record(), made.logs()
    places = {group.name: dict(placed_away(made, recorded, logs, group)) for group in groups}
    intended = {group.name: intention(made, recorded, group, places[group.name]) for group in groups}
    at_once(lambda group: made.move(group, places[group.name]), groups)
    made.record_moves(
        {group.name: intended[group.name] for group in groups if group.habit is not Habit.RETURNS_UNSEEN}
    )


def placed_away(
    made: Clusters, recorded: Recorded, logs: Mapping[Log, Records], group: Traveller
) -> Iterator[tuple[Log, Place]]:
    for (topic, _), here, there in made.ways_of(group):
        place = recorded.place(group, here, there)
        below = {offset: record for offset, record in logs[there].items() if offset < (place.offset or 0)}
        assert not set(wanted(made, topic, below).values()) - group.read, (group, there, place)
        yield there, place


def intention(
    made: Clusters, recorded: Recorded, group: Traveller, places: Mapping[Log, Place]
) -> OffsetsSet:
    """What `offsets set` would record of the group before it sets these offsets."""
    ways = [(here, there) for _, here, there in made.ways_of(group)]
    return OffsetsSet(
        group=group.name,
        source_cluster=ways[0][0].cluster,
        target_cluster=ways[0][1].cluster,
        cut=recorded.at.cut.token,
        commits=tuple(intended_commit(recorded, group, here, there, places[there]) for here, there in ways),
        seen=seen_at(recorded.at.cut, ways[0][1].cluster),
    )


def intended_commit(
    recorded: Recorded, group: Traveller, here: Log, there: Log, place: Place
) -> IntendedCommit:
    left = recorded.ledger.last_commit(group.name, here)
    assert place.offset is not None, (group, here, there)
    return IntendedCommit(
        topic=there.topic,
        topic_id=recorded.ledger.current(there).topic_id,
        partition=there.partition,
        former=None,
        to=place.offset,
        source_topic=here.topic,
        source_topic_id=recorded.ledger.current(here).topic_id,
        source_partition=here.partition,
        source_offset=None if left is None else left.offset,
        source_leader_epoch=None if left is None else left.leader_epoch,
        source_made_after_ms=None if left is None else left.made_after_ms,
        status=place.status,
    )


def go_over(
    made: Clusters,
    recorded: Recorded,
    logs: Mapping[Log, Records],
    group: Traveller,
    single: Mapping[tuple[str, Log, Log], int],
) -> Iterator[Arrival]:
    ways = list(made.ways_of(group))
    places = {there: recorded.place(group, here, there) for _, here, there in ways}
    made.move(group, places)
    got = made.read_to_the_end(group)
    for (topic, _), here, there in ways:
        yield Arrival(
            group,
            here,
            there,
            places[there],
            frozenset(group.read),
            logs[here],
            logs[there],
            wanted(made, topic, logs[there]),
            logs[there] if there[:2] in group.been else wanted(made, topic, logs[there]),
            got[there],
            single.get((group.name, here, there)),
        )


def wanted(made: Clusters, here: Topic, records: Records) -> Records:
    """Of what lies there those that are here, or are to come here."""
    return {
        offset: record
        for offset, record in records.items()
        if made.topology.arrives(written_to(record), here)
    }


# What has to hold --------------------------------------------------------------------------------


def assert_kept(topology: Topology, one: Arrival) -> None:
    assert one.place.offset is not None, one
    assert not one.skipped, one
    assert min(one.got, default=one.place.offset) >= one.place.offset, one
    promised = one.held(one.place.repeated)
    others = one.held(one.place.others)
    assert others <= one.of_others if topology.has_doubts else others == one.of_others, one
    assert not one.in_doubt or topology.has_doubts, one
    if one.group.habit is Habit.RETURNS_UNSEEN:
        assert promised <= one.read_again, one
        return
    assert one.held(one.place.unread) - one.in_doubt == one.unread, one
    assert promised == one.read_again, one
    if one.group.habit is Habit.RESTS:
        assert one.place.repeats == 0, one


def assert_something_happened(topology: Topology, arrivals: list[Arrival]) -> None:
    """Groups had read something and went on with something; not all of them where a side begins or ends."""
    answered_by_one = sum(one.offset_by_one_flow is not None for one in arrivals)
    assert answered_by_one > 0 or topology in TWO_WAYS
    assert sum(len(one.read) for one in arrivals) > 100
    assert sum(len(one.got) for one in arrivals) > 100
    amid = [one for one in arrivals if one.got and len(one.got) < len(one.lies_there)]
    assert len(amid) > len(arrivals) / 4
    if topology is FAN_IN:
        assert any(one.place.status is PlaceStatus.OTHERS and one.of_others & one.unread for one in arrivals)
