"""Watching commits: groups without members that commit all the same, where they leave and where they were set."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from ledger.errors import ClusterUnavailableError
from ledger.offsets.setting import Choice, Outcome, Rules
from ledger.offsets.sheets import (
    PositionSheet,
    Watch,
    compute_sheet,
    is_used,
    read_on_since,
    watch_kept,
    watch_stillness,
    without_busy,
)
from tests.simulation.kafka.cluster import MemoryCluster
from tests.support.fakes import FakeClock

AT = ("billing", "orders", 0)


@dataclass
class Watched:
    """A cluster whose time passes only while somebody waits, and what happens at a second."""

    cluster: MemoryCluster
    clock: FakeClock
    happens: dict[int, Callable[[], None]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.happens.get(int(self.clock.now_s) - 1_000, lambda: None)()

    def watch(self, *, quiet_s: float = 5.0, limit_s: float = 12.0) -> Watch:
        return Watch(self.clock, self.sleep, quiet_s, limit_s, say=self.said.append)

    def commits(self, *seconds: int) -> None:
        """Somebody commits one record more at each of these."""
        self.happens |= dict.fromkeys(seconds, self._commit)

    def _commit(self) -> None:
        self.cluster.committed[AT] += 1

    def sheet(self, outcome: Outcome) -> PositionSheet:
        answer = {
            "group_id": "billing",
            "source_topic": "orders",
            "source_partition": 0,
            "committed_offset": 9,
            "target_topic": "orders",
            "target_topic_id": self.cluster.topic_by_name["orders"].topic_id,
            "target_partition": 0,
            "target_offset": 7,
            "status": "exact",
            "absence": None,
        }
        found = compute_sheet(
            self.cluster,
            [answer],
            Rules(Choice()),
            from_cluster="east",
            cut="v2.cut",
            unread_groups={},
        )
        return replace(found, settings=tuple(replace(one, outcome=outcome) for one in found.settings))


@pytest.fixture
def watched() -> Watched:
    clock = FakeClock()
    cluster = MemoryCluster("west", clock)
    cluster.create_topic("orders", partitions=1, replication_factor=1, configuration={})
    cluster.committed[AT] = 7
    return Watched(cluster, clock)


def test_groups_that_stand_still_are_watched_no_longer_than_needed(watched: Watched) -> None:
    found = watch_stillness(watched.cluster, watched.watch(), {"billing"})
    assert (found.busy, found.watched_s, watched.said) == (frozenset(), 5.0, [])
    assert found.words == "1 group at west, watched for 5 s: none has members, and no commit moved"


def test_who_commits_without_members_is_waited_for(watched: Watched) -> None:
    watched.commits(2, 4)
    found = watch_stillness(watched.cluster, watched.watch(), {"billing"})
    assert (found.busy, found.watched_s) == (frozenset(), 9.0)
    assert watched.said == ["commits of billing move at west"] * 2


def test_who_does_not_stop_is_told_of_when_the_time_is_over(watched: Watched) -> None:
    watched.commits(3, 8)
    found = watch_stillness(watched.cluster, watched.watch(), {"billing"})
    assert (set(found.moving), set(found.with_members), found.watched_s) == ({"billing"}, set(), 12.0)
    assert "1 commit without members (assign()): billing" in found.words


def test_members_are_waited_for_as_well(watched: Watched) -> None:
    watched.cluster.members.add("billing")
    found = watch_stillness(watched.cluster, watched.watch(), {"billing"})
    assert (set(found.moving), set(found.with_members), found.watched_s) == (set(), {"billing"}, 12.0)
    watched.happens[1 + int(watched.clock.now_s) - 1_000] = watched.cluster.members.clear
    assert watch_stillness(watched.cluster, watched.watch(), {"billing"}).busy == frozenset()


def test_nothing_is_set_for_groups_that_are_still_at_work(watched: Watched) -> None:
    sheet = watched.sheet(Outcome.TO_BE_SET)
    (one,) = without_busy(sheet, {"billing"}).settings
    assert one.outcome is Outcome.STILL_READING
    assert without_busy(sheet, {"audit"}) == sheet
    newer = watched.sheet(Outcome.NEWER)
    assert without_busy(newer, {"billing"}) == newer


def test_a_group_that_nobody_has_recorded_where_it_stands_now_is_named(watched: Watched) -> None:
    sheet = watched.sheet(Outcome.TO_BE_SET)
    watched.cluster.committed[AT] = 9
    assert read_on_since(watched.cluster, sheet) == frozenset()
    watched.cluster.committed[AT] = 10
    assert read_on_since(watched.cluster, sheet) == {"billing"}
    del watched.cluster.committed[AT]
    assert read_on_since(watched.cluster, sheet) == {"billing"}, "it was there"
    gone = replace(
        sheet,
        settings=tuple(replace(one, answer={**one.answer, "absence": "gone"}) for one in sheet.settings),
    )
    assert read_on_since(watched.cluster, gone) == frozenset(), "that it is gone is what the ledger says"


def test_what_was_set_stays_where_nobody_is_at_work(watched: Watched) -> None:
    sheet = watched.sheet(Outcome.SET)
    assert watch_kept(watched.cluster, watched.watch(), sheet) == sheet
    assert watched.clock.now_s == 1_005.0


def test_who_never_committed_at_the_target_is_not_at_work_there(watched: Watched) -> None:
    sheet = watched.sheet(Outcome.SET)
    [one] = sheet.settings
    assert not is_used([replace(one, former=None)], {})
    there = replace(sheet, settings=(replace(one, former=7),))
    assert is_used(there.settings, {})
    assert is_used(there.settings, {one.place: [6]})
    assert not is_used(there.settings, {one.place: [7]}), "a driver has synced it"
    left = replace(sheet, settings=(replace(one, former=7, outcome=Outcome.NEWER),))
    assert not is_used(left.settings, {}), "it was not set"


@pytest.mark.parametrize("outcome", [Outcome.SET, Outcome.ALREADY_SET])
def test_a_commit_that_leaves_its_place_without_members_is_of_others(
    watched: Watched, outcome: Outcome
) -> None:
    watched.commits(3)
    watched.happens[4] = lambda: watched.cluster.committed.update({AT: 7})  # as if nothing had been
    found = watch_kept(watched.cluster, watched.watch(), watched.sheet(outcome))
    assert [one.outcome for one in found.settings] == [Outcome.MOVED_BY_OTHERS]
    assert not found.is_complete
    assert "assigns itself partitions" in found.blockers[0]
    assert watched.said == ["commits of billing move at west"]


def test_a_group_that_was_started_reads_on(watched: Watched) -> None:
    def start() -> None:
        watched.cluster.members.add("billing")
        watched.cluster.committed[AT] = 9

    watched.happens[3] = start
    sheet = watched.sheet(Outcome.SET)
    assert watch_kept(watched.cluster, watched.watch(), sheet) == sheet


def test_what_was_not_set_is_not_looked_at(watched: Watched) -> None:
    watched.cluster.committed[AT] = 9
    sheet = watched.sheet(Outcome.NEWER)
    assert watch_kept(watched.cluster, watched.watch(), sheet) == sheet


def test_a_cluster_that_does_not_answer_is_not_taken_for_still(watched: Watched) -> None:
    def end() -> None:
        watched.cluster.available = False

    watched.happens[2] = end
    with pytest.raises(ClusterUnavailableError):
        watch_stillness(watched.cluster, watched.watch(), {"billing"})
