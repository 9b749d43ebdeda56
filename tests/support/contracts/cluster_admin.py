"""What `ClusterAdmin` promises, whichever cluster answers."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import pytest

from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.groups import CommitRefusal, GroupEvent, NewCommit, UnreadGroup
from ledger.facts.syncs import TopicPartition, topic_id_bytes
from ledger.kafka.cluster import ClusterAdmin, GroupListing, PartitionEnds
from ledger.topics.following import NewTopic
from tests.support.waiting import eventually

MOMENT_MS = 1_700_000_000_000
FOR_EVER = "-1"
"""Retention of what was written at that moment: it is years ago: brokers would delete it meanwhile."""


class Applications(Protocol):
    """What applications do at the cluster."""

    def write(self, topic: str, partition: int, timestamps: list[int]) -> None:
        """One batch with a record of each of these times."""
        ...

    def begin_transaction(
        self, topic: str, partition: int, records: int, *, commits: bool = True
    ) -> Callable[[], None]:
        """Records of a transaction that is open until what is returned is called, which commits or aborts it."""
        ...


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster of one broker or more, and names that nobody else uses there."""

    admin: ClusterAdmin
    applications: Applications
    name: str = field(default_factory=lambda: f"contract-{uuid.uuid4().hex[:8]}")

    def topic(self, partitions: int = 2, **configuration: str) -> TopicPartition:
        """Partition 0 of a new topic."""
        settings = {key.replace("_", "."): value for key, value in configuration.items()}
        self.admin.create_topic(
            self.name, partitions=partitions, replication_factor=1, configuration=settings
        )
        return TopicPartition(self.name, self.admin.topics()[self.name].topic_id, 0)


class ClusterAdminContract:
    """Whoever inherits has the fixture `site`."""

    def test_a_created_topic_is_described(self, site: Site) -> None:
        site.topic(partitions=2)
        found = site.admin.topics()[site.name]
        told = (found.name, found.partitions, found.replication_factor, found.internal)
        assert told == (site.name, 2, 1, False)
        assert len(topic_id_bytes(found.topic_id)) == 16

    def test_a_name_that_is_taken_is_refused(self, site: Site) -> None:
        before = site.topic()
        with pytest.raises(PreconditionError, match=f"{site.name}.*not"):
            site.admin.create_topic(site.name, partitions=1, replication_factor=1, configuration={})
        assert site.admin.topics()[site.name].topic_id == before.topic_id

    def test_of_several_topics_those_that_are_refused_are_left_out(self, site: Site) -> None:
        site.topic()
        names = [f"{site.name}-{end}" for end in "ab"]
        wanted = [NewTopic(name, 2, 1, {"retention.ms": "7"}) for name in (site.name, *names)]
        created = site.admin.create_topics(wanted)
        assert created == {name: site.admin.topics()[name].topic_id for name in names}
        assert site.admin.configurations(names) == {name: {"retention.ms": "7"} for name in names}
        assert len(site.admin.ends([(name, partition) for name in names for partition in range(2)])) == 4
        assert site.admin.create_topics(wanted) == {}

    def test_a_topics_own_settings_are_told_apart_from_the_clusters(self, site: Site) -> None:
        site.topic(retention_ms="7")
        asked = [site.name, "no-such-topic"]
        assert site.admin.configurations(asked) == {site.name: {"retention.ms": "7"}}
        assert site.admin.configurations([]) == {}
        settings = site.admin.topic_settings(asked)
        assert (set(settings.read), settings.refused) == ({site.name}, {})
        assert settings.read[site.name].own == {"retention.ms": "7"}
        assert settings.read[site.name].effective["retention.ms"] == "7"

    def test_settings_are_changed_and_removed(self, site: Site) -> None:
        site.topic(retention_ms="7", cleanup_policy="compact")
        site.admin.change_settings(site.name, to_set={"max.message.bytes": "500"}, to_remove=["retention.ms"])
        wanted = {site.name: {"cleanup.policy": "compact", "max.message.bytes": "500"}}
        eventually(lambda: site.admin.configurations([site.name]) == wanted, "the settings are changed")

    def test_partitions_are_added_and_never_taken_away(self, site: Site) -> None:
        site.topic(partitions=2)
        site.admin.add_partitions(site.name, total=5)
        eventually(lambda: site.admin.topics()[site.name].partitions == 5, "there are five partitions")
        with pytest.raises(PreconditionError, match=f"{site.name} to 3 partitions"):
            site.admin.add_partitions(site.name, total=3)
        assert site.admin.topics()[site.name].partitions == 5

    def test_only_the_life_that_is_named_is_deleted(self, site: Site) -> None:
        life = site.topic()
        site.admin.delete_topic(site.name, topic_id=_another_life(life).topic_id)
        assert not site.admin.is_deleted(site.name)
        for _ in ("it is there", "it is gone already"):
            site.admin.delete_topic(site.name, topic_id=life.topic_id)
            eventually(lambda: site.admin.is_deleted(site.name), "the topic is gone")
        assert site.name not in site.admin.topics()

    def test_ends_are_of_partitions_that_are_there(self, site: Site) -> None:
        site.topic(partitions=2, retention_ms=FOR_EVER)
        site.applications.write(site.name, 0, [MOMENT_MS] * 3)
        wanted = [(site.name, 0), (site.name, 1), (site.name, 9), ("no-such-topic", 0)]
        assert _ends(site, wanted) == {(site.name, 0): (0, 3, 3), (site.name, 1): (0, 0, 0)}
        assert site.admin.ends([]) == {}

    def test_ends_tell_open_transactions_apart(self, site: Site) -> None:
        site.topic()
        partition = (site.name, 0)
        commit = site.applications.begin_transaction(*partition, records=3)
        assert _ends(site, [partition]) == {partition: (0, 0, 3)}
        commit()
        ended = {partition: (0, 4, 4)}
        eventually(lambda: _ends(site, [partition]) == ended, "the marker is behind the records")

    def test_the_first_offset_of_a_time_or_later(self, site: Site) -> None:
        site.topic(partitions=3, retention_ms=FOR_EVER)
        for moment in (MOMENT_MS, MOMENT_MS + 10, MOMENT_MS + 20):
            site.applications.write(site.name, 0, [moment, moment + 1])
        site.applications.write(site.name, 1, [MOMENT_MS])
        asked = [(site.name, partition) for partition in range(3)]
        for after_ms, offset in ((0, 0), (1, 1), (2, 2), (11, 3), (12, 4), (21, 5)):
            found = site.admin.offsets_at(asked, MOMENT_MS + after_ms)
            assert found.pop((site.name, 1), None) == (0 if after_ms == 0 else None)
            assert found == {(site.name, 0): offset}
        assert site.admin.offsets_at(asked, MOMENT_MS + 22) == {}

    def test_batches_from_an_offset_on_are_told_by_their_headers(self, site: Site) -> None:
        life = site.topic(retention_ms=FOR_EVER)
        for size in (3, 4):
            site.applications.write(site.name, 0, [MOMENT_MS] * size)
        both, second = [(0, 3), (3, 7)], [(3, 7)]
        for offset, held in ((0, both), (2, both), (3, second), (6, second)):
            found = site.admin.batches_at(life, offset)
            assert [(header.base_offset, header.end_offset) for header in found] == held
        assert not site.admin.batches_at(life, 7), "the end"
        assert not site.admin.batches_at(life, 8), "past the end"
        with pytest.raises(ClusterUnavailableError, match="another topic id"):
            site.admin.batches_at(_another_life(life), 0)

    def test_aborted_transactions_are_told_wherever_they_reach(self, site: Site) -> None:
        life = site.topic()
        partition = (site.name, 0)
        site.applications.begin_transaction(*partition, records=3, commits=False)()  # 0 to 3
        site.applications.begin_transaction(*partition, records=2)()  # 4 to 6
        eventually(lambda: _ends(site, [partition]) == {partition: (0, 7, 7)}, "both are ended")
        [(_, first)] = site.admin.aborted_at(life, 0)
        assert first == 0
        assert site.admin.aborted_at(life, 3) == site.admin.aborted_at(life, 0), "the marker alone"
        assert list(site.admin.aborted_at(life, 4)) == list(site.admin.aborted_at(life, 7)) == []

    def test_commits_are_set_for_a_group_without_members(self, site: Site) -> None:
        site.topic(partitions=2)
        group, name = f"{site.name}-group", site.name
        assert site.admin.dead_groups([group]) == {group}
        for last in (7, 3):
            wanted = [
                NewCommit(name, 0, last, "note"),
                NewCommit(name, 1, 0, None),
                NewCommit(name, 9, 5, None),
            ]
            assert site.admin.set_commits(group, wanted) == {(name, 9): CommitRefusal.NO_TOPIC}
            assert _commits(site, group) == [(name, "the-id", 0, last, "note"), (name, "the-id", 1, 0, "")]
        assert site.admin.dead_groups([group, f"{group}-2"]) == {f"{group}-2"}
        (listed,) = [one for one in site.admin.groups() if one.group_id == group]
        assert (listed.group_type, listed.group_state) == ("classic", "Empty")
        assert _commits(site, f"{group}-2") == []

    def test_a_commit_replaces_only_what_it_was_judged_by(self, site: Site) -> None:
        site.topic(partitions=2)
        group, name = f"{site.name}-group", site.name

        def refused(offset: int, *replaces: int | None) -> Mapping[tuple[str, int], CommitRefusal]:
            wanted = [NewCommit(name, at, offset, None, replaces=replaces) for at in (0, 1)]
            return site.admin.set_commits(group, wanted)

        assert refused(5, 4) == dict.fromkeys([(name, 0), (name, 1)], CommitRefusal.MOVED), "no such group"
        assert refused(5, None) == {}
        assert site.admin.set_commits(group, [NewCommit(name, 1, 6, None)]) == {}
        assert refused(7, None, 5) == {(name, 1): CommitRefusal.MOVED}
        assert [row[3] for row in _commits(site, group)] == [7, 6]

    def test_commits_are_deleted_for_a_group_without_members(self, site: Site) -> None:
        site.topic(partitions=2)
        group, name = f"{site.name}-group", site.name
        assert site.admin.delete_commits(group, [(name, 0)]) == {}, "no such group"
        wanted = [NewCommit(name, partition, 5, "") for partition in (0, 1)]
        assert site.admin.set_commits(group, wanted) == {}
        for _ in range(2):
            assert site.admin.delete_commits(group, [(name, 0), (name, 9), ("no-such-topic", 0)]) == {}
            assert _commits(site, group) == [(name, "the-id", 1, 5, "")]

    def test_groups_that_are_not_listed_are_deleted_for_certain_or_not(self, site: Site) -> None:
        site.topic()
        group = f"{site.name}-group"
        assert site.admin.lists_all_groups()
        assert site.admin.unlisted_groups([group]) == {group: UnreadGroup(GroupEvent.GONE)}
        assert site.admin.set_commits(group, [NewCommit(site.name, 0, 7, None)]) == {}
        found = site.admin.unlisted_groups([group, f"{group}-2"])
        assert {name: why.event for name, why in found.items()} == {
            group: GroupEvent.HIDDEN,  # somebody answers for it
            f"{group}-2": GroupEvent.GONE,
        }

    def test_commits_are_read_of_all_groups_that_exist(self, site: Site) -> None:
        site.topic()
        groups = [f"{site.name}-{end}" for end in "ab"]
        for group in groups:
            assert site.admin.set_commits(group, [NewCommit(site.name, 0, 7, None)]) == {}
        asked = [GroupListing(group, "classic", "Empty") for group in (*groups, f"{site.name}-none")]
        answer = site.admin.group_commits(asked, topic_ids={})
        assert answer.refused == {}
        told = [(row.group_id, row.committed_offset, row.transaction_pending) for row in answer.read]
        assert told == [(group, 7, False) for group in groups]

    def test_producer_ids_are_never_given_twice(self, site: Site) -> None:
        given = [site.admin.allocate_producer_id() for _ in range(5)]
        assert len(set(given)) == 5


def _another_life(life: TopicPartition) -> TopicPartition:
    return replace(life, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")


def _ends(site: Site, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Log start, last stable offset and high watermark by partition."""

    def told(ends: PartitionEnds) -> tuple[int, int, int]:
        return ends.log_start, ends.last_stable, ends.high_watermark

    return {partition: told(ends) for partition, ends in site.admin.ends(partitions).items()}


def _commits(site: Site, group: str) -> list[tuple[str, str | None, int, int, str | None]]:
    """What the group has committed: topic, topic id, partition, offset, metadata."""
    found = site.admin.commits([GroupListing(group, "classic", "Empty")], topic_ids={site.name: "the-id"})
    return [
        (row.topic, row.topic_id, row.partition, row.committed_offset, row.metadata)
        for row in found
        if row.committed_offset is not None
    ]
