"""Which stops a simulation may end with, by what went wrong in it, and what an operator asks for each of them."""

from ledger.facts.requests import RequestKind
from ledger.mirror.assignment import StopCause
from tests.simulation.faults import LOSING_ENDS, Fault

ALLOWED: dict[StopCause, frozenset[Fault]] = {
    # Where flows meet, one's target is the source of another.
    StopCause.LOST: frozenset({Fault.SOURCE_RETENTION, Fault.TARGET_RETENTION}),
    StopCause.SOURCE_TRUNCATED: LOSING_ENDS,
    StopCause.SOURCE_RECREATED: frozenset({Fault.SOURCE_RECREATED}),
    StopCause.TARGET_TRUNCATED: frozenset({Fault.TARGET_UNCLEAN}),
    StopCause.TARGET_RECREATED: frozenset({Fault.TARGET_RECREATED}),
    StopCause.SOURCE_OUT_OF_RANGE: LOSING_ENDS | {Fault.SOURCE_RETENTION},
    StopCause.TARGET_OUT_OF_RANGE: frozenset({Fault.TARGET_RETENTION}),
    StopCause.FOREIGN_WRITE: frozenset({Fault.FOREIGN_WRITES}),
    # Own records at the target whose source records are others by now, or gone.
    StopCause.TAIL_MISMATCH: frozenset(
        {
            Fault.COMPACTION,
            Fault.TARGET_COMPACTS,
            *LOSING_ENDS,
            Fault.TARGET_UNCLEAN,
            Fault.SOURCE_RETENTION,
            Fault.SOURCE_RECREATED,
            Fault.SOURCE_DELETED,
            Fault.TARGET_RETENTION,
            Fault.CLEANED_MEANWHILE,
        }
    ),
    StopCause.SEQUENCE_REFUSED: frozenset({Fault.TARGET_UNCLEAN}),
    StopCause.SOURCE_TOPIC_GONE: frozenset({Fault.SOURCE_RECREATED, Fault.SOURCE_DELETED}),
    StopCause.TARGET_TOPIC_GONE: frozenset({Fault.TARGET_RECREATED}),
    StopCause.DENIED: frozenset({Fault.PERMISSIONS_DENIED}),
    StopCause.REFUSED: frozenset({Fault.SIZE_LIMITS}),
    StopCause.TOO_LARGE: frozenset(),
    StopCause.CORRUPT: frozenset({Fault.GARBLED_READS}),
    StopCause.TARGET_CORRUPT: frozenset({Fault.GARBLED_READS}),
    StopCause.FAILED: frozenset(),
    StopCause.SHUT_OUT: frozenset(),
    StopCause.UNKNOWN: frozenset(),
    StopCause.PROMOTED: frozenset({Fault.DIRECTION_CHANGES}),
    StopCause.OPPOSITE_HOLDS: frozenset(),
    StopCause.CUT_NOT_HELD: frozenset(),
}
"""At least one of the faults must be at work. A cause without any is a defect."""

LOST_SOURCE = frozenset(
    {
        Fault.COMPACTION,
        Fault.SOURCE_RETENTION,
        *LOSING_ENDS,
        Fault.SOURCE_RECREATED,
        Fault.SOURCE_DELETED,
        Fault.CLEANED_MEANWHILE,
        Fault.TARGET_RETENTION,  # own records that are left, and whose source records lay below them
    }
)
"""Without one of these every record of a flow at its target has its source: none is unpaired because that is gone."""

MORE_WHEN_TOLD = frozenset({StopCause.TAIL_MISMATCH, StopCause.SEQUENCE_REFUSED, StopCause.FOREIGN_WRITE})
"""Where brokers forgot what is late, these tell of what was written twice."""

REQUESTS: dict[StopCause, RequestKind] = {
    StopCause.TARGET_OUT_OF_RANGE: RequestKind.ACCEPT_FOREIGN,
    StopCause.FOREIGN_WRITE: RequestKind.ACCEPT_FOREIGN,
    StopCause.TAIL_MISMATCH: RequestKind.ACCEPT_FOREIGN,
}
"""What gets a stopped partition going again once everything is calm; all others are resumed."""
