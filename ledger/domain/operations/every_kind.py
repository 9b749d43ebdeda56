"""The class of each kind of operation."""

from collections.abc import Mapping

from ledger.domain.fences.receipts import Fence, Unfenced
from ledger.domain.hand_over.receipts import HandedOver, HandOverResult, HandOverUndone
from ledger.domain.operations.cluster_acceptances import ClusterAcceptance
from ledger.domain.operations.content import OperationContent, Row
from ledger.domain.operations.directions import Demoted, Promoted
from ledger.domain.operations.extras_decisions import ExtrasDecided
from ledger.domain.operations.finding_events import FindingCleared, FindingRaised
from ledger.domain.operations.flow_events import ConfigurationChanged, DriverStarting, ScopeReduced
from ledger.domain.operations.group_offsets import OffsetsSet, OffsetsSetResult
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.operations.last_rows import (
    LastCheckpoints,
    LastHighWatermarks,
    LastOffsetSyncs,
    LastShareOffsets,
    LastWriters,
)
from ledger.domain.operations.partition_events import (
    KeysResynced,
    PartitionResumed,
    PartitionStopped,
    Settled,
    TailCopiedAgain,
)
from ledger.domain.operations.promotion.changeovers import (
    ApplyAlive,
    ApplyClaimed,
    ApplyEnded,
    PlanExported,
    PlanRecorded,
    Sheet,
    StepBegun,
    StepDone,
    StepFailed,
    UndoBegun,
    Undone,
)
from ledger.domain.operations.promotion.shut_outs import MirrorLetIn, MirrorShutOut
from ledger.domain.operations.receipts import Receipt
from ledger.domain.operations.repairs import LedgerRepaired
from ledger.domain.operations.requests import AcceptForeign, Pause, Resume, Resync, SkipTo, StopRequest
from ledger.domain.operations.target_changes import AclsFollowed, TopicFollowed

EVERY_KIND: Mapping[OperationKind, type[OperationContent]] = {
    kind.kind: kind
    for kind in (
        *(StopRequest, Pause, Resume, SkipTo, AcceptForeign, Resync),
        *(DriverStarting, ScopeReduced, ClusterAcceptance, OffsetsSet, OffsetsSetResult, ExtrasDecided),
        *(PlanRecorded, ApplyClaimed, ApplyAlive, StepBegun, StepDone, StepFailed, ApplyEnded),
        *(PlanExported, Sheet, UndoBegun, Undone),
        *(Promoted, Demoted, MirrorShutOut, MirrorLetIn, KeysResynced),
        *(Fence, Unfenced),
        *(HandedOver, HandOverUndone, HandOverResult),
        *(Promoted, Demoted, KeysResynced, Settled),
        *(Receipt, ConfigurationChanged, PartitionStopped, PartitionResumed, TopicFollowed, AclsFollowed),
        *(FindingRaised, FindingCleared, TailCopiedAgain, LedgerRepaired),
        *(LastOffsetSyncs, LastCheckpoints, LastShareOffsets, LastHighWatermarks, LastWriters),
    )
}


def content_of(row: Row) -> OperationContent | None:
    """What a row of `operations` says; None: it is of a kind that only a later program knows."""
    kind = EVERY_KIND.get(row["kind"])
    return None if kind is None else kind.of_row(row)
