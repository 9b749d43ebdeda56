"""What a fence needs of a cluster, beside `ClusterAdmin`: rules and settings as every leader has them, transactions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ledger.domain.facts import TopicPartition
from ledger.domain.fences.closing import Authorization
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.ports.clusters import PartitionEnds, TopicDescription
from ledger.wire.record_batch import BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction with records in a partition, as its leader has it; `start` is the offset of the first one."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start: int


class FenceReader(Protocol):
    """Reads logs and what leaders know of them, with the credentials of the mirror."""

    alias: str

    def cluster_id(self) -> str: ...

    def metadata_offset(self) -> int | None: ...

    def topics(self) -> dict[str, TopicDescription]: ...

    def ends(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        """Ends by (topic, partition); a partition without a leader is left out."""
        ...

    def batch_at(self, partition: TopicPartition, offset: int) -> BatchHeader | None:
        """The batch that holds an offset, or the first one after it; None where the log does not reach."""
        ...

    def open_transactions(self, partition: TopicPartition) -> Sequence[OpenTransaction]: ...


class FenceControl(Protocol):
    """Changes who may write, with the credentials of an administrator. Refusals are `PreconditionError`."""

    def authorizations(self) -> Sequence[Authorization] | None:
        """By broker who decides what is allowed; None: the cluster has no authorizer."""
        ...

    def topic_acls(self) -> frozenset[TopicAcl]: ...

    def leaders(self, topics: Sequence[str]) -> frozenset[int]:
        """Brokers that lead a partition of the topics. Raises `ClusterUnavailableError` where one has no leader."""
        ...

    def acls_at(self, broker: int) -> frozenset[TopicAcl]:
        """The rules about topics as this broker has them."""
        ...

    def settings_at(self, broker: int, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """All settings of topics as this broker has them."""
        ...

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Per topic the settings that were set on the topic itself."""
        ...

    def create_acls(self, acls: Sequence[TopicAcl]) -> None: ...

    def delete_acls(self, acls: Sequence[TopicAcl]) -> None:
        """Delete exactly these; that one was deleted already is no error."""
        ...

    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None: ...

    def abort(self, transaction: OpenTransaction) -> None:
        """Have the partition's leader append the marker that aborts the transaction there."""
        ...
