"""What a fence needs of a cluster, beside `ClusterAdmin`: rules and settings as every leader has them, transactions."""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from ledger.domain.facts import TopicPartition
from ledger.domain.fences.closing import Authorization
from ledger.domain.fences.proof import LeaderReading
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.ports.clusters import LogReader, TopicDescription, headers_between
from ledger.wire.record_batch import BatchHeader

Place = tuple[str, int]
"""Topic and partition."""


class Refusal(Enum):
    """What a leader answers to a batch that it takes under no setting, and refuses for its size first."""

    BY_SIZE = auto()  # it has the setting
    NOT_YET = auto()  # it would take batches of this size
    NOT_TOLD = auto()  # it does not come to compare the size, for want of a permission above all


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
    """What a coordinator has of a producer; `is_ongoing`: it waits for the producer to end the transaction.

    `places`: where records of it may lie, markers left out that were written.
    """

    transactional_id: str
    state: str
    places: frozenset[Place] = frozenset()

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

    def readings(self, partitions: Sequence[Place]) -> dict[Place, LeaderReading]:
        """Each partition as its leader has it, all at once; one without a leader is left out."""
        ...

    def smallest_batches(self, partitions: Sequence[Place]) -> dict[Place, int]:
        """The size of the smallest batch of the last ones in each log, markers left out; where none is found, nothing.

        Of some of the last ones, which a leader answers with in one go.
        """
        ...

    def open_transactions(self, partition: TopicPartition) -> Sequence[OpenTransaction]: ...


class FenceControl(Protocol):
    """Changes who may write, with the credentials of an administrator. Refusals are `PreconditionError`."""

    def authorizations(self) -> Sequence[Authorization] | None:
        """By broker who decides what is allowed; None: the cluster has no authorizer."""
        ...

    def topic_acls(self) -> frozenset[TopicAcl]: ...

    def leaders(self, topics: Sequence[str]) -> Mapping[Place, int]:
        """Which broker leads each partition of the topics. Raises `ClusterUnavailableError` where one has no leader."""
        ...

    def acls_at(self, broker: int) -> frozenset[TopicAcl]:
        """The rules about topics as this broker has them."""
        ...

    def settings_at(
        self, broker: int, topics: Sequence[str], names: Collection[str]
    ) -> Mapping[str, Mapping[str, str]]:
        """Settings with these names, as this broker tells them: it may tell them before its logs have them."""
        ...

    def keeps_metadata(self) -> bool:
        """Whether brokers have the cluster's metadata themselves (KRaft), and tell of settings what they have."""
        ...

    def refusals(self, partitions: Sequence[Place]) -> Mapping[Place, tuple[int, Refusal]]:
        """What each leader, by its id, answers to a batch that is damaged, so that it is never appended.

        A partition that its leader just gave up is left out.
        """
        ...

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Per topic the settings that were set on the topic itself."""
        ...

    def create_acls(self, acls: Sequence[TopicAcl]) -> None: ...

    def delete_acls(self, acls: Sequence[TopicAcl]) -> None:
        """Delete exactly these; that one was deleted already is no error."""
        ...

    def change_setting(self, name: str, values: Mapping[str, str | None]) -> None:
        """Set one setting on each of these topics, all at once; None: what is set on the topic is removed.

        Raises where one is refused; others may be set then.
        """
        ...

    def transactions_in(self, topics: Sequence[str]) -> Sequence[CoordinatedTransaction]:
        """What coordinators have open with records in these topics, as far as this principal may see it.

        Nothing where brokers do not tell (before 3.0).
        """
        ...

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
