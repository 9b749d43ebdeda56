"""What a recorder reads of the ledger, beside what drivers read."""

from typing import Protocol

from ledger.domain.facts import TopicState
from ledger.domain.fences.receipts import Fences
from ledger.domain.groups import GroupFact, ShareOffset
from ledger.domain.operations.finding_events import FindingKey
from ledger.domain.permissions import Permissions
from ledger.domain.writer_roles import LastClaim
from ledger.ports.ledger import LedgerState


class RecordingState(LedgerState, Protocol):
    """What a recorder reads from the ledger."""

    def last_topic_states(self, cluster: str) -> list[TopicState]:
        """The latest state of each topic that was not deleted since."""
        ...

    def last_groups(self, cluster: str) -> list[GroupFact]:
        """What was recorded last of each group, and of the listing."""
        ...

    def last_share_offsets(self, cluster: str) -> list[ShareOffset]:
        """What was recorded last of each share group and partition."""
        ...

    def last_permissions(self, cluster: str, cluster_id: str) -> Permissions:
        """What was recorded last of the permissions of the cluster with this Kafka cluster id."""
        ...

    def findings_of(self, writer: str) -> frozenset[FindingKey]:
        """Findings that the writer raised and has not cleared since."""
        ...

    def fences(self) -> Fences:
        """Fences that were not lifted."""
        ...

    def last_claim(self, writer: str) -> LastClaim | None:
        """The claim with the highest epoch, and when that writer last appended anywhere."""
        ...
