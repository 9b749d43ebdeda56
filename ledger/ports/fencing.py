"""What a fence needs of a cluster, beside `ClusterAdmin`: rules and settings as every leader has them, transactions."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ledger.domain.facts import TopicPartition
from ledger.domain.fences.closing import Authorization
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.ports.clusters import LogReader, PartitionEnds, TopicDescription, headers_between
from ledger.wire.record_batch import BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction with records in a partition, as its leader has it; `start` is the offset of the first one.

    `last_timestamp_ms`: of the producer's last batch there, None: not known.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start: int
    last_timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class CoordinatedTransaction:
    """What a coordinator has of a producer; `is_ongoing`: it waits for the producer to end the transaction."""

    transactional_id: str
    state: str

    @property
    def is_ongoing(self) -> bool:
        return self.state == "Ongoing"

    @property
    def is_ended(self) -> bool:
        """For the coordinator it is over, so it writes no marker any more."""
        return self.state in ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


def first_data(
    reader: LogReader, at: TopicPartition, start: int, end: int, *, mirrors: Container[int]
) -> BatchHeader | None:
    """The first batch between these offsets that an application wrote: no marker, and not by a mirror's producer id."""
    return next(
        (
            header
            for header in headers_between(reader, at, start, end)
            if not header.is_control and header.producer_id not in mirrors
        ),
        None,
    )


class FenceReader(LogReader, Protocol):
    """Reads logs and what leaders know of them, with the credentials of the mirror."""

    alias: str

    def cluster_id(self) -> str: ...

    def metadata_offset(self) -> int | None: ...

    def topics(self) -> dict[str, TopicDescription]: ...

    def ends(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        """Ends by (topic, partition); a partition without a leader is left out."""
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

    def coordinated(self, producer_id: int) -> CoordinatedTransaction | None:
        """What coordinators show of a producer; None: nothing, which may be for want of a permission."""
        ...

    def fence_producer(self, transactional_id: str) -> None:
        """Have the coordinator abort what is open, everywhere; the producer cannot commit it any more."""
        ...

    def abort_hanging(self, transaction: OpenTransaction) -> None:
        """Have the partition's leader append the marker that aborts it there.

        For a transaction that no coordinator waits for: of another one the producer would commit what is left.
        """
        ...
