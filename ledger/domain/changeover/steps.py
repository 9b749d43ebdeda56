"""The steps of a change of direction, in their order.

A switchover is planned: the source answers, its producers are stopped and fenced, and all that they wrote is copied
before anything moves. A failover goes by what the ledger knows: the source does not answer, so what was not copied is
lost until it comes back.

Not every pair has every step. Where the target is shared by applications and mirrors, or has topics of other
names, nothing is promoted: there applications may write at any time, and only groups and producers move.
"""

from enum import StrEnum


class ChangeoverKind(StrEnum):
    """Whether the source is asked, or given up."""

    SWITCHOVER = "switchover"
    FAILOVER = "failover"


class StepName(StrEnum):
    """In the order in which they are carried out."""

    CHECK = "check"  # nothing that the plan read has changed, nothing speaks against it
    RECORD = "record"  # what is needed afterwards is recorded without the mirror's driver
    STOP_PRODUCERS = "stop_producers"  # by a hook or a person
    FENCE = "fence"  # nobody writes to the former source any more, proven
    DRAIN = "drain"  # all that lies there is copied
    STOP_GROUPS = "stop_groups"  # by a hook or a person: their commits stand still and are recorded
    PROMOTE = "promote"  # direction changes: the mirror stops
    SHUT_OUT = "shut_out"  # the mirror cannot write to the new source any more
    SETTLE = "settle"  # what the mirror had copied and nobody has recorded is recorded
    CUT = "cut"  # the ends of both sides are recorded
    HAND_OVER = "hand_over"  # settings and permissions for applications
    MOVE_GROUPS = "move_groups"  # committed offsets are set, and read back
    AUDIT = "audit"  # the ledger keeps its invariants
    START_APPLICATIONS = "start_applications"  # by a hook or a person
    FIRST_PROGRESS = "first_progress"  # each group's first commit behind what was set
    REVERSE = "reverse"  # the other direction may be mirrored from the cut
    REPORT = "report"

    @property
    def description(self) -> str:
        """What is done, as people read it."""
        return _TITLES[self]


BY_PEOPLE = (StepName.STOP_PRODUCERS, StepName.STOP_GROUPS, StepName.START_APPLICATIONS)
"""Steps that a hook or a person carries out; the tool finds out what came of them."""

_TITLES = {
    StepName.CHECK: "check what the plan was made from",
    StepName.RECORD: "record the target without the mirror",
    StepName.STOP_PRODUCERS: "stop the producers",
    StepName.FENCE: "fence the source, and prove it",
    StepName.DRAIN: "wait until all of the source is copied",
    StepName.STOP_GROUPS: "stop the groups at the source",
    StepName.PROMOTE: "promote the target",
    StepName.SHUT_OUT: "shut the mirror out of the target",
    StepName.SETTLE: "record what was copied last",
    StepName.CUT: "record the ends of both sides",
    StepName.HAND_OVER: "give applications their settings and permissions",
    StepName.MOVE_GROUPS: "set the groups' offsets",
    StepName.AUDIT: "audit the ledger",
    StepName.START_APPLICATIONS: "start the applications at the target",
    StepName.FIRST_PROGRESS: "wait for the groups' first progress",
    StepName.REVERSE: "open the way for the reverse flow",
    StepName.REPORT: "report",
}

_ONLY_SWITCHOVER = (StepName.DRAIN, StepName.STOP_GROUPS, StepName.REVERSE)
_ONLY_FAILOVER = (StepName.SETTLE,)
_ONLY_PROMOTED = (StepName.PROMOTE, StepName.SHUT_OUT, StepName.HAND_OVER, StepName.REVERSE)


def steps_of(kind: ChangeoverKind, *, is_promoted: bool) -> tuple[StepName, ...]:
    """The steps of a plan, in order; `is_promoted`: the target's topics can be promoted."""
    left_out = set(_ONLY_FAILOVER if kind is ChangeoverKind.SWITCHOVER else _ONLY_SWITCHOVER)
    if not is_promoted:
        left_out |= set(_ONLY_PROMOTED)
    return tuple(step for step in StepName if step not in left_out)
