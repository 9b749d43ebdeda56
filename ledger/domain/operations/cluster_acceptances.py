"""What operators say of the clusters behind aliases."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ledger.domain.operations.content import OperationContent
from ledger.domain.operations.kinds import OperationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAcceptance(OperationContent):
    """An operator's word on what an alias stands for.

    `former_id`: what it stood for before. `retired_epochs`: by writer, up to which epoch claims with `cluster_id`
    say nothing of it any more: neither producer ids nor its metadata; empty unless it was declared rebuilt.
    """

    kind: ClassVar = OperationKind.CLUSTER_ACCEPTED
    cluster: str
    cluster_id: str
    former_id: str | None
    rebuilt: bool
    retired_epochs: Mapping[str, int] = field(default_factory=dict)
