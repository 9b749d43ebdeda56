"""A flow between clusters in memory that may refuse calls, with its topics and what the ledger says."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ledger.errors import PreconditionError, QuotaExceededError, RefusedSettingError
from ledger.facts.acls import AclFollow
from ledger.facts.permissions import Permission
from ledger.facts.rows import FlowIdentity
from ledger.facts.syncs import TopicPartition
from ledger.mirror.targets import FollowingRecord
from ledger.mirror.topics import FlowTopics
from ledger.store.session import ClaimedOperations
from ledger.topics.following import ConfigurationFollow, NewTopic, SettingsFollowing, TopicFollowing
from ledger.topics.naming import NamingKind, TopicNaming, TopicSelection
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledger_rows import row
from tests.support.ledgers import claimed
from tests.support.offset_syncs import stamped, sync

PREFIX = TopicNaming(NamingKind.PREFIX, "east")


class GuardedCluster(MemoryCluster):
    """A cluster that refuses some calls for some topics."""

    def __init__(self, alias: str, clock: Schedule) -> None:
        super().__init__(alias, clock)
        self.refused: set[tuple[str, str]] = set()
        self.not_taken: dict[str, str] = {}
        """Values that are not taken, by setting."""
        self.is_setting_named = True
        self.creations: float = float("inf")
        """So many topics a quota lets be created; until it is raised the next one waits for 40 s."""

    def _check_settings(self, topic: str, settings: Mapping[str, str]) -> None:
        """As a real one: what was asked for is said around the cluster's own words."""
        for name, value in self.not_taken.items():
            if settings.get(name) == value:
                what = f" {value} for configuration {name}: too small" if self.is_setting_named else ""
                reason = f"cluster {self.alias} refused it: [Error 40] Invalid value{what}"
                raise RefusedSettingError(
                    f"{reason}, asked for {', '.join(settings)} of {topic}", reason=reason
                )

    def _check_quota(self, name: str) -> None:
        if self.creations < 1:
            raise QuotaExceededError(f"topic {name} has to wait", wait_s=40.0)
        self.creations -= 1

    def _check(self, call: str, topic: str) -> None:
        if (call, topic) in self.refused:
            raise PreconditionError(f"cluster {self.alias} does not allow this principal to {call} {topic}")

    def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configuration: Mapping[str, str]
    ) -> None:
        self._check("create", name)
        self._check_settings(name, configuration)
        self._check_quota(name)
        super().create_topic(
            name, partitions=partitions, replication_factor=replication_factor, configuration=configuration
        )

    def create_topics(self, wanted: Sequence[NewTopic]) -> dict[str, str]:
        created: dict[str, str] = {}
        for topic in wanted:
            with suppress(PreconditionError, QuotaExceededError):
                self._check("create", topic.name)
                self._check_settings(topic.name, topic.configuration)
                self._check_quota(topic.name)
                created |= super().create_topics([topic])
        return created

    def refused_settings(self, wanted: Sequence[NewTopic]) -> dict[str, str]:
        refused: dict[str, str] = {}
        for topic in wanted:
            try:
                self._check_settings(topic.name, topic.configuration)
            except RefusedSettingError as error:
                refused[topic.name] = error.reason
        return refused

    def add_partitions(self, name: str, *, total: int) -> None:
        self._check("extend", name)
        super().add_partitions(name, total=total)

    def create_acls(self, acls: Sequence[Permission]) -> None:
        self._check("create rules of", acls[0].resource_name)
        super().create_acls(acls)

    def topic_acls(self) -> frozenset[Permission]:
        self._check("describe rules of", "topics")
        return super().topic_acls()

    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None:
        self._check("configure", name)
        self._check_settings(name, to_set)
        super().change_settings(name, to_set=to_set, to_remove=to_remove)

    def delete_topic(self, name: str, *, topic_id: str | None = None) -> None:
        self._check("delete", name)
        super().delete_topic(name, topic_id=topic_id)

    def is_deleted(self, topic: str) -> bool:
        self._check("see", topic)
        return super().is_deleted(topic)


class Flow:
    """A flow `f` from east to west (or within east) and its ledger."""

    def __init__(self, *, one_cluster: bool = False) -> None:
        self.clock = Schedule()
        self.east = GuardedCluster("east", self.clock)
        self.west = self.east if one_cluster else GuardedCluster("west", self.clock)
        self.ledger = MemoryLedger()

    def source(self, name: str, *, partitions: int = 1, **settings: str) -> None:
        configuration = {key.replace("_", "."): value for key, value in settings.items()}
        self.east.create_topic(name, partitions=partitions, replication_factor=1, configuration=configuration)

    def topics(
        self,
        naming: TopicNaming = PREFIX,
        follow: ConfigurationFollow = ConfigurationFollow.INCREMENTAL,
        *,
        delete_topics: bool = False,
        acls: AclFollow = AclFollow.NONE,
        patterns: tuple[str, ...] = (".*",),
        exclude: tuple[str, ...] = (),
        operations: ClaimedOperations | None = None,
    ) -> FlowTopics:
        """The topics of a driver that starts now; unless it brings its `operations` it has just claimed the flow."""
        operations = operations or claimed(MemoryFactLog(self.ledger, self.clock), "f")
        return FlowTopics(
            TopicSelection(patterns, exclude, naming=naming),
            TopicFollowing(naming, 3, settings=SettingsFollowing(follow)),
            self.east,
            self.west,
            FollowingRecord("f", operations, MemoryLedgerState(self.ledger)),
            self.clock,
            delete_topics=delete_topics,
            acls=acls,
        )

    def operations(self, kind: str) -> list[dict[str, object]]:
        rows = self.ledger.at(self.ledger.latest()).relation("operations").to_pylist()
        return [json.loads(row["content"]) for row in rows if row["kind"] == kind]

    def copied(self, source: str, target: str, *, target_start: int = 0) -> None:
        """What a round would record: a record of partition 0 of the source was copied."""
        sides = (self.east.topics()[source], self.west.topics()[target])
        pair = [TopicPartition(side.name, side.topic_id, 0) for side in sides]
        copied = replace(sync((0, 1), target_start, origin=pair[0], target=pair[1]), bytes=1, raw_batches=1)
        self.ledger.append("offset_syncs", [stamped(FlowIdentity("f", "east", "west"), 1, copied)])

    def claimed(self) -> None:
        """What a driver's claim leaves: which clusters it ran between."""
        claimed = row(
            "writers",
            writer="flow:f",
            writer_epoch=1,
            event="claimed",
            flow="f",
            source_cluster="east",
            source_cluster_id=self.east.cluster_id(),
            target_cluster="west",
            target_cluster_id=self.west.cluster_id(),
            producer_id=7,
        )
        self.ledger.append("writers", [claimed])

    def deleted(self, name: str) -> None:
        """Somebody deletes a source topic, and a recorder sees it."""
        topic_id = self.east.topics()[name].topic_id
        self.east.delete_topic(name)
        seen = row(
            "topics", writer="recorder:east", cluster="east", topic=name, topic_id=topic_id, event="deleted"
        )
        self.ledger.append("topics", [seen])

    def actions(self) -> list[tuple[object, object]]:
        return [(content["action"], content["topic"]) for content in self.operations("topic_followed")]

    def findings(self) -> list[tuple[str, object, object]]:
        """What is open now, with its message, in the order of raising."""
        state = MemoryLedgerState(self.ledger).open_findings("f")
        return [
            (str(content["finding"]), content["topic"], content["message"])
            for content in self.operations("finding_raised")
            if (content["finding"], content["topic"], content["partition"]) in state
        ]


def follow(topics: FlowTopics) -> list[tuple[str, str, int]]:
    return [
        (pair.source.topic, pair.target.topic, pair.target.partition)
        for pair in topics.follow(written_topic_ids=frozenset())
    ]
