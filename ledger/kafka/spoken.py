"""The versions of requests that we speak, of brokers from Kafka 2.8 to the newest, and what later versions bring.

A request goes in the newest version that both sides speak. What a broker speaks is what it says itself (ApiVersions),
whatever release it calls itself. Source: the message schemas of Apache Kafka 2.8 to 4.3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger.facts.syncs import topic_id_text

NEWEST = 32767
Versions = Mapping[int, tuple[int, int]]
"""By key of a request the oldest and the newest version that a broker speaks."""

NO_TOPIC_IDS = (
    "gives no topic ids, without which a recreated topic cannot be distinguished from the one before it: brokers of "
    "Kafka 2.8 or later are needed, with inter.broker.protocol.version 2.8 or later where that is set"
)


def given_id(topic: Any) -> str | None:
    """The topic id in what a broker answers of a topic; None: it gives none."""
    return None if topic.topic_id is None or not topic.topic_id.int else topic_id_text(topic.topic_id.bytes)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A request by its name and key, and the versions of it that we speak."""

    request: str
    key: int
    oldest: int
    newest: int = NEWEST

    def is_spoken(self, versions: Versions) -> bool:
        """Whether a broker speaks one of them."""
        spoken = versions.get(self.key)
        return spoken is not None and spoken[1] >= self.oldest and spoken[0] <= self.newest

    def common(self, versions: Versions) -> int | None:
        """The newest version that both sides speak; None: there is none."""
        return min(self.newest, versions[self.key][1]) if self.is_spoken(versions) else None

    @property
    def bounds(self) -> dict[str, int]:
        """As requests of kafka-python are given them, which then choose by what a broker speaks."""
        return {"min_version": self.oldest, "max_version": self.newest}

    def since(self, version: int) -> "Spoken":
        """The same from a version on."""
        return Spoken(self.request, self.key, version, self.newest)

    def before(self, version: int) -> "Spoken":
        """The same up to a version."""
        return Spoken(self.request, self.key, self.oldest, version - 1)


PRODUCE = Spoken("Produce", 0, 9, 13)
PRODUCE_BY_ID = PRODUCE.since(13)
"""Since 4.1; topics are named before. Version 9 is the first that is flexible."""
FETCH = Spoken("Fetch", 1, 12, 13)
FETCH_BY_ID = FETCH.since(13)
"""Since 3.1; topics are named before. Version 12 is the first with the epoch of the last batch, and flexible."""
LIST_OFFSETS = Spoken("ListOffsets", 2, 4)
"""Version 4 is the first with leader epochs."""
METADATA = Spoken("Metadata", 3, 10, 12)
"""Version 10, of 2.8, is the first that answers with topic ids. Topics are asked for by name in all."""
OFFSET_COMMIT = Spoken("OffsetCommit", 8, 0, 9)
"""Version 9 is the last that names topics."""
OFFSET_FETCH = Spoken("OffsetFetch", 9, 7, 8)
OFFSET_FETCH_OF_MANY = OFFSET_FETCH.since(8)
"""Since 3.0; of one group before. Version 7 is the first that asks for stable commits."""
FIND_COORDINATOR = Spoken("FindCoordinator", 10, 3)
FIND_COORDINATORS = FIND_COORDINATOR.since(4)
"""Since 3.0; of one group before."""
LIST_GROUPS = Spoken("ListGroups", 16, 4)
LIST_GROUPS_OF_TYPES = LIST_GROUPS.since(5)
"""Since 3.8; without types before."""
CREATE_TOPICS = Spoken("CreateTopics", 19, 7)
"""Version 7, of 2.8, answers with topic ids."""
DELETE_TOPICS = Spoken("DeleteTopics", 20, 6)
"""Version 6, of 2.8, goes by topic id."""
INIT_PRODUCER_ID = Spoken("InitProducerId", 22, 0)
OFFSET_FOR_LEADER_EPOCH = Spoken("OffsetForLeaderEpoch", 23, 3)
DESCRIBE_CONFIGS = Spoken("DescribeConfigs", 32, 1)
"""Version 1 says where a setting comes from."""
CREATE_PARTITIONS = Spoken("CreatePartitions", 37, 0)
INCREMENTAL_ALTER_CONFIGS = Spoken("IncrementalAlterConfigs", 44, 0)
DESCRIBE_PRODUCERS = Spoken("DescribeProducers", 61, 0)
DESCRIBE_TRANSACTIONS = Spoken("DescribeTransactions", 65, 0)
LIST_TRANSACTIONS = Spoken("ListTransactions", 66, 0, 0)
"""Both since 3.0."""
