"""The class of each kind of operation."""

from collections.abc import Mapping

from ledger.facts.archived import FactsArchived, FactsLeft
from ledger.facts.changeovers import (
    ApplyAlive,
    ApplyClaimed,
    ApplyEnded,
    PlanApproved,
    PlanRecorded,
    Sheet,
    StepBegun,
    StepDone,
    StepFailed,
    UndoBegun,
    Undone,
)
from ledger.facts.deficits import DeficitsDecided
from ledger.facts.direction import Demoted, Promoted, WayBackOpened
from ledger.facts.drills import Drilled
from ledger.facts.extras import ExtrasDecided
from ledger.facts.fences import Fence, FormerDriversShutOut, MirrorLetIn, MirrorShutOut, Unfenced
from ledger.facts.group_offsets import MembersRemoved, OffsetsSet, OffsetsSetResult
from ledger.facts.hand_overs import HandedOver, HandOverResult, HandOverUndone
from ledger.facts.identity import ClusterAcceptance
from ledger.facts.operations import (
    AclsFollowed,
    ConfigurationChanged,
    DriverStarting,
    FindingCleared,
    FindingRaised,
    KeysResynced,
    LedgerRepaired,
    LedgerRestored,
    OperationContent,
    OperationKind,
    PartitionResumed,
    PartitionStopped,
    ScopeReduced,
    Settled,
    TailCopiedAgain,
    TopicFollowed,
)
from ledger.facts.recreated import TopicRecreated
from ledger.facts.requests import AcceptForeign, Pause, Receipt, Reload, Resume, Resync, SkipTo, StopRequest
from ledger.facts.tables import Row

EVERY_KIND: Mapping[OperationKind, type[OperationContent]] = {
    kind.kind: kind
    for kind in (
        *(StopRequest, Pause, Resume, SkipTo, AcceptForeign, Resync, Reload),
        *(DriverStarting, ScopeReduced, ClusterAcceptance, OffsetsSet, OffsetsSetResult, MembersRemoved),
        ExtrasDecided,
        *(PlanRecorded, ApplyClaimed, ApplyAlive, StepBegun, StepDone, StepFailed, ApplyEnded),
        *(PlanApproved, Sheet, UndoBegun, Undone, Drilled, DeficitsDecided, TopicRecreated),
        *(Promoted, Demoted, WayBackOpened, MirrorShutOut, MirrorLetIn, Fence, Unfenced),
        *(HandedOver, HandOverUndone, HandOverResult),
        *(KeysResynced, Settled),
        *(Receipt, ConfigurationChanged, PartitionStopped, PartitionResumed, TopicFollowed, AclsFollowed),
        *(FindingRaised, FindingCleared, TailCopiedAgain, LedgerRepaired, LedgerRestored),
        *(FormerDriversShutOut, FactsArchived, FactsLeft),
    )
}


def content_of(row: Row) -> OperationContent | None:
    """What a row of `operations` says; None: it is of a kind that only a later program knows."""
    kind = EVERY_KIND.get(row["kind"])
    return None if kind is None else kind.of_row(row)
