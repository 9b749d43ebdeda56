"""Groups that read at the source keep a commit at the target: over whose commits, when again, and when not."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ledger.adopt.synced_groups import MakersCheckpoint, makers_checkpoint
from ledger.errors import ClusterUnavailableError
from ledger.facts.direction import Promotion, nothing_promoted
from ledger.facts.groups import RECOMMIT_AFTER_MS, CommitRefusal, Hindrance, NewCommit, Place
from ledger.facts.tables import Row
from ledger.kafka.cluster import PartitionEnds
from ledger.offsets.maker_topics import Checkpoints
from ledger.offsets.setting import SourceCommit, synced_before
from ledger.offsets.syncing import CommitKey, GroupSync, SyncPass, pause_s
from ledger.store import catalog
from ledger.store.sql import run_query
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.share_groups import ShareGroupCluster
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import Dying, FakeClock, FakeLedger, recorder_of, watched_cluster
from tests.support.ledger_rows import row

AT: Place = ("billing", "east.orders", 0)
KEY: CommitKey = ("billing", "orders", 0)


@dataclass
class Ledger:
    """What the ledger says: commits at the source, and where each lands; a map that ends at `mapped_to`."""

    committed: dict[CommitKey, int] = field(default_factory=dict)
    absent: set[CommitKey] = field(default_factory=set)
    topic_id: str = ""
    mapped_to: int = 100
    asked: list[list[str]] = field(default_factory=list)
    left: dict[Place, int] = field(default_factory=dict)
    promoted: Promotion = nothing_promoted
    outputs: str | None = None
    earlier_by: int = 0

    def commits(self) -> Mapping[CommitKey, object]:
        return {key: (offset, key in self.absent, self.outputs) for key, offset in self.committed.items()}

    def map_state(self) -> object:
        return self.mapped_to

    def translate(self, groups: Collection[str]) -> Sequence[Mapping[str, Any]]:
        self.asked.append(list(groups))
        return [self._answer(key) for key in self.committed if key[0] in groups]

    def _answer(self, key: CommitKey) -> Mapping[str, Any]:
        group, topic, partition = key
        offset = self.committed[key] - self.earlier_by
        return {
            "outputs": self.outputs,
            "last_committed_offset": self.committed[key] if self.earlier_by else None,
            "group_id": group,
            "source_topic": topic,
            "source_partition": partition,
            "committed_offset": offset,
            "target_topic": f"east.{topic}",
            "target_topic_id": self.topic_id,
            "target_partition": partition,
            "target_offset": min(offset, self.mapped_to),
            "status": "exact" if offset <= self.mapped_to else "ahead",
            "ahead": max(offset - self.mapped_to, 0),
            "absence": "gone" if key in self.absent else None,
            "metadata": "a note",
        }

    def source_commits(self, groups: Collection[str]) -> Mapping[CommitKey, SourceCommit]:
        known = SourceCommit(topic_id="T", leader_epoch=3, made_after_ms=50)
        return {key: known for key in self.committed if key[0] in groups}

    def known_offsets(self, groups: Collection[str]) -> Mapping[Place, Collection[int]]:
        return {place: {offset} for place, offset in self.left.items() if place[0] in groups}

    def promotion(self) -> Promotion:
        return self.promoted


@dataclass
class Syncing:
    """A flow whose group `billing` has committed 40 at the source."""

    target: MemoryCluster
    clock: FakeClock
    ledger: Ledger
    rows: list[dict[str, Any]] = field(default_factory=list)
    sync: GroupSync = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """As a driver that begins."""
        self.sync = GroupSync(
            "east-to-west",
            "east",
            self.target,
            self.ledger,
            self.record,
            self.clock,
            synced_before(self.rows),
        )

    def record(self, rows: Sequence[Row]) -> None:
        self.rows += [{**row, "recorded_at_ms": self.clock.now_ms()} for row in rows]

    def run(self) -> SyncPass:
        self.clock.now_s += 60
        return self.sync.run_once()

    @property
    def there(self) -> int | None:
        return self.target.committed.get(AT)

    def events(self) -> list[tuple[str, int]]:
        return [(row["event"], row["target_offset"]) for row in self.rows]


def syncing_to(target: MemoryCluster, clock: FakeClock) -> Syncing:
    target.create_topic("east.orders", partitions=2, replication_factor=1, configuration={})
    topic_id = target.topic_by_name["east.orders"].topic_id
    return Syncing(target, clock, Ledger({KEY: 40}, topic_id=topic_id))


@pytest.fixture
def syncing() -> Syncing:
    clock = FakeClock()
    return syncing_to(MemoryCluster("west", clock), clock)


def test_a_group_that_is_not_there_gets_its_commit_recorded_before_and_behind(syncing: Syncing) -> None:
    assert syncing.run() == SyncPass(1, 1, {})
    assert (syncing.there, syncing.target.committed_metadata[AT]) == (40, "a note")
    assert syncing.events() == [("intended", 40), ("synced", 40)]
    assert {key: value for key, value in syncing.rows[1].items() if key != "recorded_at_ms"} == {
        "flow": "east-to-west",
        "group_id": "billing",
        "source_cluster": "east",
        "source_topic": "orders",
        "source_topic_id": "T",
        "source_partition": 0,
        "source_offset": 40,
        "source_leader_epoch": 3,
        "source_made_after_ms": 50,
        "target_cluster": "west",
        "target_topic": "east.orders",
        "target_topic_id": syncing.ledger.topic_id,
        "target_partition": 0,
        "former_offset": None,
        "target_offset": 40,
        "status": "exact",
        "event": "synced",
    }


def test_what_does_not_change_costs_nothing(syncing: Syncing) -> None:
    syncing.run()
    syncing.target.available = False  # it is not asked
    for _ in range(3):
        syncing.ledger.mapped_to += 1
        assert syncing.run() == SyncPass(0, 0, {})
    assert (syncing.ledger.asked, len(syncing.rows)) == ([["billing"]], 2)


def test_what_the_group_reads_on_and_where_it_is_put_back_follow(syncing: Syncing) -> None:
    for offset in (40, 60, 7):
        syncing.ledger.committed[KEY] = offset
        syncing.run()
        assert syncing.there == offset


def test_only_groups_that_have_moved_are_translated(syncing: Syncing) -> None:
    syncing.ledger.committed[("audit", "orders", 1)] = 9
    syncing.run()
    syncing.ledger.committed[KEY] = 41
    assert syncing.run() == SyncPass(1, 1, {})
    assert syncing.ledger.asked == [["audit", "billing"], ["billing"]]


def test_nothing_is_set_by_a_map_that_has_not_come_to_the_commit(syncing: Syncing) -> None:
    """Its end would be read again from there on, and the next pass may come late."""
    syncing.ledger.committed[KEY] = 120
    for mapped_to in (0, 100, 119):
        syncing.ledger.mapped_to = mapped_to
        assert syncing.run() == SyncPass(1, 0, {}, waiting=1)
        assert (syncing.there, syncing.rows) == (None, [])
    syncing.ledger.mapped_to = 120
    assert syncing.run() == SyncPass(1, 1, {})
    assert syncing.there == 120


@dataclass
class Recorded(Ledger):
    """What a recorder of east has recorded, and two maps: of a topic, and of the one that took its place."""

    kept: MemoryLedger = field(default_factory=MemoryLedger)

    def take(self, seen: FakeLedger) -> None:
        self.kept = MemoryLedger()
        for table in ("checkpoints", "groups", "high_watermarks", "topics", "writers"):
            self.kept.append(table, seen.rows(table))
        of_both = {
            "flow": "east-to-west",
            "source_cluster": "east",
            "source_topic": "orders",
            "kind": "copied",
        }
        there = {"target_cluster": "west", "target_topic": "east.orders", "target_topic_id": self.topic_id}
        for number, (topic_id, records) in enumerate((("id-1", 5), ("id-2", 9)), 1):
            at = {
                "source_end": records,
                "target_start": 5 * number - 5,
                "target_end": 5 * number - 5 + records,
            }
            found = {"source_topic_id": topic_id, "records": records, "gaps": [], "round": number, **at}
            self.kept.append("offset_syncs", [row("offset_syncs", **of_both, **there, **found)])

    def translate(self, groups: Collection[str]) -> Sequence[Mapping[str, Any]]:
        sides = {"from_cluster": "east", "to_cluster": "west"}
        found = run_query(catalog.query("offset_translation"), sides, self.kept.at(self.kept.latest()))
        return [
            {**one, "outputs": None, "last_committed_offset": None}
            for one in found.to_pylist()
            if one["group_id"] in groups and one["target_topic"] is not None
        ]


def test_what_a_group_had_read_of_a_topic_sets_nothing_once_another_has_its_place(syncing: Syncing) -> None:
    """The commit lay beyond its end when it was first seen there; what is committed since is followed."""
    east, seen = watched_cluster(), FakeLedger(syncing.clock)
    recorder = recorder_of(east, seen)
    recorder.take_role()
    recorder.record_once()
    east.add_topic("orders", "id-2", partitions=2)
    for end in (2, 9):
        east.ends_now["orders", 0] = PartitionEnds(0, end, end, 0)
        recorder.record_once()
    syncing.ledger = recorded = Recorded({("app", "orders", 0): 3}, topic_id=syncing.ledger.topic_id)
    syncing.start()
    recorded.take(seen)
    place = "app", "east.orders", 0
    assert (syncing.run().hindered, syncing.target.committed) == ({place: Hindrance.NO_ANSWER}, {})
    east.committed["app", "orders", 0] = recorded.committed["app", "orders", 0] = 4
    recorder.record_once()
    recorded.take(seen)
    assert (syncing.run().hindered, syncing.target.committed) == ({}, {place: 9})


def test_who_reads_on_in_front_of_the_map_gets_its_end_and_more_when_that_has_moved(syncing: Syncing) -> None:
    """The map has come to where the group was seen first: that it is ahead for a moment is how both go on."""
    syncing.ledger.committed[KEY] = 120
    syncing.run()
    syncing.ledger.committed[KEY], syncing.ledger.mapped_to = 140, 125
    syncing.run()
    assert (syncing.there, syncing.rows[-1]["status"]) == (125, "ahead")
    assert syncing.run().translated == 0
    syncing.ledger.mapped_to = 130
    syncing.run()
    assert syncing.there == 130
    syncing.ledger.committed[KEY] = 135
    syncing.run()
    assert syncing.there == 130


def test_who_is_put_back_waits_for_no_more_than_it_has_read(syncing: Syncing) -> None:
    syncing.ledger.committed[KEY] = 120
    syncing.run()
    syncing.ledger.committed[KEY] = 90
    assert syncing.run().synced == 1
    syncing.ledger.committed[KEY] = 110
    assert (syncing.run().synced, syncing.there) == (1, 100)


def test_a_target_that_was_created_again_has_to_come_to_the_commit_again(syncing: Syncing) -> None:
    syncing.run()
    syncing.target.recreate_topic("east.orders")
    syncing.ledger.topic_id = syncing.target.topic_by_name["east.orders"].topic_id
    syncing.ledger.mapped_to, syncing.ledger.committed[KEY] = 0, 41
    assert syncing.run() == SyncPass(1, 0, {}, waiting=1)


def test_the_next_pass_is_not_later_for_what_one_took_where_commits_wait() -> None:
    assert pause_s(2.0, 3.0) == 20.0
    assert pause_s(2.0, 3.0, is_waiting=True) == 3.0
    assert pause_s(60.0, 3.0, is_waiting=True) == 60.0


def test_a_group_that_reads_at_the_target_is_left_alone(syncing: Syncing) -> None:
    syncing.target.members.add("billing")
    assert syncing.run().hindered == {AT: Hindrance.HAS_MEMBERS}
    assert (syncing.there, syncing.rows) == (None, [])
    syncing.target.members.clear()
    assert syncing.run().synced == 1


@pytest.mark.parametrize("offset", [39, 40, 41])
def test_what_the_group_has_committed_there_itself_stays(syncing: Syncing, offset: int) -> None:
    syncing.target.committed[AT] = offset
    assert syncing.run().hindered == {AT: Hindrance.OWN_COMMIT}
    assert (syncing.there, syncing.rows) == (offset, [])


def test_who_has_read_on_there_is_left_alone_until_a_recorded_move_takes_it_away(syncing: Syncing) -> None:
    syncing.run()
    syncing.target.committed[AT] = 55
    syncing.ledger.committed[KEY] = 60
    assert syncing.run().hindered == {AT: Hindrance.OWN_COMMIT}
    syncing.ledger.left[AT] = 54
    assert syncing.run().hindered == {AT: Hindrance.OWN_COMMIT}
    syncing.ledger.left[AT] = 55
    assert (syncing.run().synced, syncing.there) == (1, 60)


def test_nothing_is_synced_while_the_topic_is_promoted(syncing: Syncing) -> None:
    syncing.ledger.promoted = lambda topic: f"{topic} was promoted"
    assert syncing.run().hindered == {AT: Hindrance.PROMOTED}
    assert (syncing.there, syncing.rows) == (None, [])
    syncing.ledger.promoted = lambda topic: "another" if topic != "east.orders" else None
    assert syncing.run().synced == 1


def test_idle_groups_are_committed_again_daily_and_not_more_often(syncing: Syncing) -> None:
    syncing.run()
    syncing.clock.now_s += RECOMMIT_AFTER_MS / 1000 - 61
    assert syncing.run().synced == 0
    del syncing.target.committed[AT]  # it has expired
    syncing.clock.now_s += 1
    assert (syncing.run().synced, syncing.there) == (1, 40)
    assert syncing.run().synced == 0
    assert len(syncing.rows) == 4


def delete_at_source(syncing: Syncing) -> None:
    syncing.ledger.absent.add(KEY)


def recreate_at_target(syncing: Syncing) -> None:
    syncing.target.recreate_topic("east.orders")


def deny(syncing: Syncing) -> None:
    syncing.target.denied_groups.add("billing")


@pytest.mark.parametrize(
    ("happen", "why"),
    [
        (delete_at_source, Hindrance.NO_COMMIT),
        (recreate_at_target, Hindrance.OTHER_TOPIC),
        (deny, Hindrance.GROUP_DENIED),
    ],
)
def test_what_cannot_be_synced_is_told_by_name(
    syncing: Syncing, happen: Callable[[Syncing], None], why: Hindrance
) -> None:
    happen(syncing)
    assert syncing.run().hindered == {AT: why}
    assert (syncing.there, syncing.rows) == (None, [])


def test_a_share_group_of_the_name_is_left_alone() -> None:
    clock = FakeClock()
    target = ShareGroupCluster("west", clock)
    syncing = syncing_to(target, clock)
    target.started[AT] = 3
    assert syncing.run().hindered == {AT: Hindrance.OTHER_TYPE}
    assert syncing.rows == []


def test_what_a_driver_that_died_has_committed_is_not_taken_for_somebody_elses() -> None:
    clock = FakeClock()
    target = Dying("west", clock)
    syncing = syncing_to(target, clock)
    with pytest.raises(ClusterUnavailableError):
        syncing.run()
    assert (syncing.there, syncing.events()) == (40, [("intended", 40)])
    syncing.target = MemoryCluster(
        "west", clock, topic_by_name=target.topic_by_name, committed=target.committed
    )
    syncing.ledger.committed[KEY] = 42
    syncing.start()
    assert (syncing.run().synced, syncing.there) == (1, 42)
    syncing.start()
    assert syncing.run() == SyncPass(1, 0, {})


class RefusingCluster(MemoryCluster):
    """It refuses to commit for whomever, as where a permission on the topic is missing."""

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        assert group
        return {(one.topic, one.partition): CommitRefusal.TOPIC_DENIED for one in commits}


def test_what_the_target_refuses_is_not_recorded_at_each_pass() -> None:
    clock = FakeClock()
    syncing = syncing_to(RefusingCluster("west", clock), clock)
    assert syncing.run().synced == 0
    for _ in range(5):
        assert syncing.run().hindered == {AT: Hindrance.REFUSED}
    assert syncing.events() == [("intended", 40)]
    syncing.ledger.committed[KEY] = 41
    syncing.run()
    assert syncing.events() == [("intended", 40), ("intended", 41)], "the group has moved on"
    clock.now_s += 600
    syncing.run()
    assert len(syncing.rows) == 3, "tried again"


def test_a_target_that_was_created_again_is_asked_about_once_it_has_copies(syncing: Syncing) -> None:
    syncing.run()
    syncing.ledger.committed[KEY] = 41
    syncing.target.recreate_topic("east.orders")
    assert syncing.run().hindered == {AT: Hindrance.OTHER_TOPIC}
    syncing.ledger.topic_id = syncing.target.topic_by_name["east.orders"].topic_id
    asked = len(syncing.ledger.asked)
    assert (syncing.run().translated, len(syncing.ledger.asked)) == (0, asked), "nothing is copied yet"
    syncing.ledger.mapped_to = 101
    assert (syncing.run().synced, syncing.there) == (1, 41)


@dataclass
class Busy(MemoryCluster):
    """`then`: what happens elsewhere behind the first group's commit."""

    then: Callable[[], None] = lambda: None

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        refused = MemoryCluster.set_commits(self, group, commits)
        then, self.then = self.then, lambda: None
        then()
        return refused


@pytest.mark.parametrize("is_promoted", [True, False])
def test_a_group_that_was_moved_while_others_are_synced_stays_where_it_was_moved_to(
    *, is_promoted: bool
) -> None:
    clock = FakeClock()
    west = Busy("west", clock)
    syncing = syncing_to(west, clock)
    last = ("last", "east.orders", 0)
    syncing.ledger.committed["last", "orders", 0] = 40

    def move() -> None:
        west.committed[last] = 90
        if is_promoted:
            syncing.ledger.promoted = lambda _topic: "by an apply"

    west.then = move
    assert syncing.run().synced == 1
    assert west.committed == {AT: 40, last: 90}
    told = {row["group_id"]: row["event"] for row in syncing.rows}
    assert told == {"billing": "synced", "last": "intended"}
    syncing.ledger.promoted = nothing_promoted
    assert syncing.run().hindered == {last: Hindrance.OWN_COMMIT}


def test_a_promotion_while_the_groups_are_read_keeps_the_commit_back(syncing: Syncing) -> None:
    answers = iter([nothing_promoted, lambda _topic: "by ana"])
    syncing.ledger.promotion = lambda: next(answers)  # type: ignore[method-assign]  # changes in between
    assert syncing.run().synced == 0
    assert (syncing.there, syncing.events()) == (None, [("intended", 40)])


def test_a_group_waits_for_what_it_has_written(syncing: Syncing) -> None:
    syncing.ledger.outputs = "not_copied"
    assert syncing.run().hindered == {AT: Hindrance.OUTPUTS_NOT_COPIED}
    assert syncing.there is None
    syncing.ledger.outputs, syncing.ledger.earlier_by = "earlier_commit", 15
    assert syncing.run().synced == 1
    assert syncing.there == 25
    assert {(row["source_offset"], row["source_leader_epoch"]) for row in syncing.rows} == {(25, None)}
    syncing.ledger.outputs, syncing.ledger.earlier_by = "copied", 0
    syncing.run()
    assert syncing.there == 40


# -- Checkpoints as MirrorMaker writes them ---------------------------------------------------------


@dataclass
class Written:
    """Implements `Write`: the records of each topic."""

    records: list[tuple[str, MakersCheckpoint | None]] = field(default_factory=list)
    is_away: bool = False

    def __call__(self, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
        if self.is_away:
            raise ClusterUnavailableError("west did not take it")
        self.records += [(topic, makers_checkpoint(key, value)) for key, value in records]


@pytest.mark.parametrize("commits", [False, True])
def test_a_checkpoint_is_written_where_a_commit_lands_elsewhere_than_before(
    syncing: Syncing, commits: bool
) -> None:
    written = Written()
    syncing.sync.emit, syncing.sync.commits = Checkpoints("east", written), commits
    for offset in (40, 40, 60):
        syncing.ledger.committed[KEY] = offset
        syncing.run()
    expected = [MakersCheckpoint(AT, offset, offset) for offset in (40, 60)]
    assert written.records == [("east.checkpoints.internal", one) for one in expected]
    assert syncing.there == (60 if commits else None)


def test_groups_are_synced_where_no_checkpoint_can_be_written_and_it_is_written_later(
    syncing: Syncing,
) -> None:
    written = Written(is_away=True)
    syncing.sync.emit = Checkpoints("east", written)
    with pytest.raises(ClusterUnavailableError, match="west did not take it"):
        syncing.run()
    assert syncing.there == 40
    written.is_away = False
    syncing.run()
    assert [one for _, one in written.records] == [MakersCheckpoint(AT, 40, 40)]
