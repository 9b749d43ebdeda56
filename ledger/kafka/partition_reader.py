"""Reads one partition through kept connections with one request at a time, whoever leads it meanwhile."""

from dataclasses import dataclass

from ledger.clock import Clock
from ledger.errors import ClusterUnavailableError, RefusedPartitionError
from ledger.facts.syncs import TopicPartition
from ledger.kafka.copying import ClusterLink, Network, answer_to
from ledger.kafka.requests import ErrorCode, Fetched, FetchItem, describe

_FETCH_BYTES = 4 * 1024 * 1024
_GIVE_UP_AFTER_S = 30.0
_PAUSE_S = 0.2
_DELETED_AFTER = 6  # answers in a row: a broker may not have heard of a new topic yet


@dataclass(frozen=True, slots=True)
class PartitionReader:
    """Reads one partition with one request at a time.

    `committed`: as a read_committed reader sees it. `undone`: what was not done, as errors say it.
    """

    network: Network
    link: ClusterLink
    clock: Clock
    partition: TopicPartition
    committed: bool
    undone: str

    def fetched(self, offset: int, *, min_bytes: int) -> Fetched:
        """The next response from an offset on with so many bytes of records, asked for again for half a minute.

        Raises `RefusedPartitionError` where the offset or the topic is there no more, else `ClusterUnavailableError`.
        """
        give_up, unknown = self.clock.monotonic() + _GIVE_UP_AFTER_S, 0
        while isinstance(found := self._ask(offset, min_bytes), str):
            if self.clock.monotonic() >= give_up:
                raise ClusterUnavailableError(
                    f"{self._where} cannot be read from offset {offset} on: {found}; {self.undone}. Try again when it "
                    "answers"
                )
            self.network.poll(_PAUSE_S)
            unknown = unknown + 1 if self.link.is_deleted(self.partition) else 0
            if unknown >= _DELETED_AFTER:
                raise RefusedPartitionError(f"{self._where} was deleted, or created again; {self.undone}")
            self.link.refresh([self.partition.topic])
        return found

    def _ask(self, offset: int, min_bytes: int) -> Fetched | str:
        """Or why there is none."""
        node = self.link.leader(self.partition)
        if node is None:
            return "it has no leader"
        item = FetchItem(self.partition, offset, _FETCH_BYTES)
        max_wait_ms = 500 if min_bytes else 0
        ticket = self.link.fetch(
            node, [item], committed=self.committed, max_wait_ms=max_wait_ms, max_bytes=_FETCH_BYTES
        )
        completion = answer_to(ticket, self.network)
        if completion.failure or not completion.fetched or (found := completion.fetched[0]) is None:
            return completion.failure or "no answer"
        if found.error:
            return self._trouble(found.error, offset)
        return found if len(found.records) >= min_bytes else "no batch in the response"

    def _trouble(self, error: int, offset: int) -> str:
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise RefusedPartitionError(
                f"{self._where} does not hold offset {offset} any more: its log was truncated or cleared meanwhile; "
                f"{self.undone}"
            )
        return f"error {describe(error)}"

    @property
    def _where(self) -> str:
        return self.partition.words
