"""Groups of every type as a recorder appends them, on a ledger in memory: none is left out in silence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from ledger.facts.drills import drill_metadata
from ledger.facts.groups import GroupEvent, ShareOffset, UnreadGroup, has_members
from ledger.facts.syncs import Absence
from ledger.kafka.cluster import CommitsAnswer, GroupListing
from ledger.recorders.observation import read_groups
from ledger.recorders.recorder import ClusterRecorder
from tests.support.fakes import SETTINGS, FakeCluster, FakeLedger, recorder_of

NO_COORDINATOR = UnreadGroup(GroupEvent.UNAVAILABLE, "COORDINATOR_NOT_AVAILABLE")
DENIED = UnreadGroup(GroupEvent.HIDDEN, "GROUP_AUTHORIZATION_FAILED")


def share_offset(partition: int, start_offset: int | None, lag: int | None = 0) -> ShareOffset:
    return ShareOffset(
        cluster="east",
        group_id="sharing",
        topic="orders",
        topic_id="id-1",
        partition=partition,
        start_offset=start_offset,
        leader_epoch=0,
        lag=lag,
        read_at_ms=1,
    )


def events(ledger: FakeLedger) -> list[tuple[object, object]]:
    """Of each row of `groups` the group and the event."""
    return [(row["group_id"], row["event"]) for row in ledger.rows("groups")]


def types(ledger: FakeLedger) -> dict[object, tuple[object, ...]]:
    """By group what its last row says of it."""
    names = ("group_type", "protocol_type", "group_state", "has_members", "event", "reason")
    return {row["group_id"]: tuple(row[name] for name in names) for row in ledger.rows("groups")}


def commits(ledger: FakeLedger) -> list[tuple[object, object, object]]:
    return [(row["group_id"], row["committed_offset"], row["absence"]) for row in ledger.rows("checkpoints")]


def test_groups_of_every_type_are_recorded_and_those_without_commits(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    cluster.listings = {
        "new": GroupListing("new", "consumer", "Stable", "consumer"),
        "app": GroupListing("app", "streams", "NotReady", "streams"),
        "sharing": GroupListing("sharing", "share", "Empty", "share"),
        "connect-x": GroupListing("connect-x", "classic", "Stable", "connect"),
        "old": GroupListing("old", None, None, None),
        "tool-y": GroupListing("tool-y", "classic", "Stable", "consumer"),
    }
    recorder.record_once()
    assert types(ledger) == {
        None: (None, None, None, None, "all_listed", None),
        "app": ("streams", "streams", "NotReady", True, "present", None),
        "connect-x": ("classic", "connect", "Stable", True, "present", None),
        "new": ("consumer", "consumer", "Stable", True, "present", None),
        "old": (None, None, None, None, "present", None),
        "sharing": ("share", "share", "Empty", False, "present", None),
    }


def test_only_members_that_come_first_or_leave_last_and_other_types_are_changes(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    recorder.record_once()
    before = len(ledger.rows("groups"))
    for state, rows in (("PreparingRebalance", 0), ("Stable", 0), ("Empty", 1), ("Empty", 1), ("Stable", 2)):
        cluster.listings["app"] = GroupListing("app", "classic", state, "consumer")
        recorder.record_once()
        assert len(ledger.rows("groups")) == before + rows
    cluster.listings["app"] = GroupListing("app", "consumer", "Stable", "consumer")
    recorder.record_once()
    assert types(ledger)["app"][0] == "consumer"
    assert len(ledger.rows("groups")) == before + 3


def test_a_deleted_group_is_recorded_once_and_as_present_when_it_comes_again(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    cluster.listings["idle"] = GroupListing("idle", "consumer", "Empty", "consumer")
    recorder.record_once()
    listing = cluster.listings.pop("idle")
    for _ in range(2):
        recorder.record_once()
    assert cluster.asked_for == ["idle"]
    assert types(ledger)["idle"] == ("consumer", "consumer", None, None, "gone", None)
    cluster.listings["idle"] = listing
    recorder.record_once()
    assert [event for group, event in events(ledger) if group == "idle"] == ["present", "gone", "present"]


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_group_whose_coordinator_does_not_answer_is_unknown_and_its_commits_stay(
    recorder: ClusterRecorder,
    cluster: FakeCluster,
    ledger: FakeLedger,
    caplog: pytest.LogCaptureFixture,
    is_listed: bool,
) -> None:
    cluster.committed["other", "orders", 0] = 5
    recorder.record_once()
    before = len(commits(ledger))
    cluster.unread_groups = {"app": NO_COORDINATOR}
    cluster.hidden_groups = set() if is_listed else {"app"}
    cluster.committed["other", "orders", 0] = 6
    for _ in range(2):
        recorder.record_once()
    assert commits(ledger)[before:] == [("other", 6, None)], "nothing is said of commits of the other group"
    assert types(ledger)["app"][4:] == ("unavailable", "COORDINATOR_NOT_AVAILABLE")
    assert [event for group, event in events(ledger) if group == "app"] == ["present", "unavailable"]
    assert "offsets of group app are not recorded until they can be read: COORDINATOR_NOT_AVAILABLE" in (
        caplog.text
    )
    cluster.unread_groups, cluster.hidden_groups = {}, set()
    recorder.record_once()
    assert types(ledger)["app"][4:] == ("present", None)
    assert len(commits(ledger)) == before + 1


def test_a_group_that_may_not_be_read_though_it_is_listed_is_hidden_with_its_commits(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    recorder.record_once()
    cluster.unread_groups = {"app": DENIED}
    recorder.record_once()
    assert types(ledger)["app"][4:] == ("hidden", "GROUP_AUTHORIZATION_FAILED")
    assert commits(ledger)[-2:] == [("app", None, "hidden")] * 2


def test_a_group_that_exists_where_all_are_listed_is_not_hidden(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    """Its coordinator was moving while the groups were listed, and answered a moment later."""
    recorder.record_once()
    before = commits(ledger)
    cluster.hidden_groups = {"app"}
    recorder.record_once()
    assert types(ledger)["app"][4:] == ("unavailable", "NOT_COORDINATOR")
    cluster.hidden_groups = set()
    recorder.record_once()
    assert types(ledger)["app"][4:] == ("present", None)
    assert commits(ledger) == before


def test_what_the_listing_is_worth_is_recorded_when_it_changes(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    for all_listed in (True, True, False, False, True):
        cluster.all_listed = all_listed
        recorder.record_once()
    told = [event for group, event in events(ledger) if group is None]
    assert told == ["all_listed", "permitted_listed", "all_listed"]


def test_share_groups_have_start_offsets_and_no_commits(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    cluster.listings["sharing"] = GroupListing("sharing", "share", "Stable", "share")
    cluster.committed["sharing", "orders", 0] = 99  # what no broker says
    cluster.shared = [share_offset(0, 4, 3), share_offset(1, None, None)]
    recorder.record_once()
    assert "sharing" not in {group for group, _, _ in commits(ledger)}
    cluster.shared = [share_offset(0, 4, 0), share_offset(1, None, None)]
    for _ in range(2):
        recorder.record_once()
    cluster.shared = cluster.shared[:1]
    recorder.record_once()
    found = [(row["partition"], row["start_offset"], row["lag"]) for row in ledger.rows("share_offsets")]
    assert found == [(0, 4, 3), (1, None, None), (0, 4, 0), (1, None, None)]
    assert [row["absence"] for row in ledger.rows("share_offsets")] == [None, None, None, "gone"]


def test_share_offsets_of_a_group_that_is_unavailable_or_hidden(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    cluster.listings["sharing"] = GroupListing("sharing", "share", "Stable", "share")
    cluster.shared = [share_offset(0, 4)]
    recorder.record_once()
    cluster.unread_groups = {"sharing": NO_COORDINATOR}
    recorder.record_once()
    assert len(ledger.rows("share_offsets")) == 1
    assert types(ledger)["sharing"][4] == "unavailable"
    cluster.unread_groups, cluster.hidden_groups, cluster.all_listed = {}, {"sharing"}, False
    recorder.record_once()
    assert [row["absence"] for row in ledger.rows("share_offsets")] == [None, "hidden"]


def test_another_recorder_continues_from_what_is_recorded(cluster: FakeCluster, ledger: FakeLedger) -> None:
    cluster.listings["sharing"] = GroupListing("sharing", "share", "Stable", "share")
    cluster.shared = [share_offset(0, 4)]

    def appended() -> int:
        """How many rows a new recorder adds to both tables."""
        before = len(ledger.rows("groups")) + len(ledger.rows("share_offsets"))
        recorder = recorder_of(cluster, ledger)
        recorder.take_role()
        recorder.record_once()
        recorder.release()
        return len(ledger.rows("groups")) + len(ledger.rows("share_offsets")) - before

    assert appended() == 4
    assert appended() == 0
    del cluster.listings["sharing"]
    cluster.shared = []
    assert appended() == 2
    assert appended() == 0
    assert ledger.last_share_offsets("east") == [
        replace(share_offset(0, None, None), leader_epoch=None, read_at_ms=1_000_000, absence=Absence.GONE)
    ]


def test_full_sweeps_repeat_commits_and_not_groups(
    recorder: ClusterRecorder, cluster: FakeCluster, ledger: FakeLedger
) -> None:
    recorder.record_once()
    ledger.clock.now_s += SETTINGS.full_sweep_seconds
    assert "groups" not in recorder.record_due().rows
    assert len(commits(ledger)) == 4


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Empty", False),
        ("Dead", False),
        ("Stable", True),
        ("NotReady", True),
        ("Assigning", True),
        ("Unknown", None),
        ("", None),
        (None, None),
    ],
)
def test_which_states_are_those_of_a_group_with_members(state: str | None, expected: bool | None) -> None:
    assert has_members(state) is expected


# -- Groups of drills ------------------------------------------------------------------------------


@dataclass
class Drilled(FakeCluster):
    """`metadata`: by group what its commits say."""

    metadata: dict[str, str] = field(default_factory=dict)

    def group_commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> CommitsAnswer:
        found = super().group_commits(groups, topic_ids=topic_ids)
        read = [replace(one, metadata=self.metadata.get(one.group_id, "")) for one in found.read]
        return CommitsAnswer(read, found.refused)


def test_groups_of_a_drill_are_nobodys_and_others_of_such_names_somebodys() -> None:
    cluster = Drilled(metadata={"drill-billing": drill_metadata("o"), "drill-busy": drill_metadata("o")})
    for group, state in (
        ("billing", "Empty"),
        ("drill-billing", "Empty"),
        ("drill-busy", "Stable"),
        ("drill-press", "Empty"),
    ):
        cluster.committed[group, "orders", 0] = 5
        cluster.listings[group] = GroupListing(group, "classic", state, "consumer")
    found = read_groups(cluster, lambda _group: True, {})
    assert set(found.listed) == {"billing", "drill-busy", "drill-press"}
    assert {one.group_id for one in found.checkpoints} == set(found.listed)
