"""What the ledger knows of a flow that a request is for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.domain.operations.requests import FlowRequests, Pauses, Reached, Request, pauses_after


class PartitionStatus(StrEnum):
    """Statuses of the query `flow_status`, in its order."""

    GONE = "gone"  # its topic was deleted or recreated at the source
    STOPPED = "stopped"
    RELEASED = "released"
    NOT_STARTED = "not_started"
    MIRRORING = "mirroring"


@dataclass(frozen=True, slots=True)
class KnownPartition:
    """`position`: the next source offset, None when nothing is recorded; `stop_cause` None: it is copied.

    `is_gone`: this incarnation of it is not at the source any more.
    """

    topic: str
    partition: int
    position: int | None
    stop_cause: str | None
    is_gone: bool = False

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition}"


@dataclass(frozen=True, slots=True)
class KnownFlow:
    """What the ledger knows of a flow; one entry per incarnation of a partition, the latest first."""

    name: str
    partitions: tuple[KnownPartition, ...]
    requests: FlowRequests

    @classmethod
    def of(cls, name: str, status_rows: Sequence[Mapping[str, Any]], requests: FlowRequests) -> "KnownFlow":
        """From the rows of the query `flow_status`."""
        # An incarnation that stopped before anything of it was copied is later than all that were copied.
        latest_first = sorted(
            status_rows, key=lambda row: row["last_recorded_at_ms"] or float("inf"), reverse=True
        )
        partitions = [
            KnownPartition(
                row["source_topic"],
                row["source_partition"],
                row["source_end"],
                None if row["status"] == PartitionStatus.GONE else row["stop_cause"],
                row["status"] == PartitionStatus.GONE,
            )
            for row in latest_first
        ]
        return cls(name, tuple(partitions), requests)

    @property
    def pauses(self) -> Pauses:
        return pauses_after(self.requests.asked)

    def concerned(self, ask: Request) -> list[KnownPartition]:
        return [known for known in self.partitions if ask.concerns(known.topic, known.partition)]

    def stopped(self, ask: Request) -> list[KnownPartition]:
        return [known for known in self.concerned(ask) if known.stop_cause is not None]

    def reached(self, ask: Request) -> Reached:
        """How far it came with the one partition that is asked about; its ends at the source nobody asked for."""
        return Reached(position=self.concerned(ask)[0].position)
