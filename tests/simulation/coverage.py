"""What simulated lives are to come to, as names of their tally: lives that come to less prove less."""

from collections import Counter
from collections.abc import Iterable

from ledger.config.values import TargetMode
from ledger.facts.requests import RequestKind
from ledger.mirror.assignment import StopCause
from tests.simulation.crash_points import CrashPoint
from tests.simulation.faults import PLOTTED, Fault, Promise
from tests.simulation.topologies import Shape
from tests.simulation.workload import TopicKind

COMMON = (
    *("records", "recovered", "raw batches", "record path batches", "merged batches", "requests answered"),
    *("gaps control", "gaps aborted", "gaps compacted", "gaps mirror_write"),
    *("started earliest", "started recreated", "lost retention", "unpaired lost_source"),
    *("superseded source_truncated", "superseded target_truncated", "superseded target_recreated"),
    *("stopped by foreign_write", "stopped by denied", "stopped by refused", "stopped by lost"),
    *("tasks killed", "drivers killed", "zombies", "drivers ended by ShutOutError"),
    *("commits with a leader epoch", "commits without one", "consumers out of range"),
    *("moves with an offset one-way", "moves with an offset two-way"),
    *("merges", "merges given up", "maintainers died"),
    *("starts by what was noted", "starts by all rows"),
)
"""What a few hundred seeds come to."""

RARELY_CRASHED = frozenset({CrashPoint.PARTITIONS_ADDED, CrashPoint.RELEASED})
"""By chance hardly anybody dies there: few add partitions, and who releases a flow does so in the calm.

`test_simulation` has a life for each crash point, these included.
"""

STOPS = (
    *(StopCause.LOST, StopCause.SOURCE_TRUNCATED, StopCause.SOURCE_RECREATED),
    *(StopCause.TARGET_TRUNCATED, StopCause.TARGET_RECREATED),
    *(StopCause.FOREIGN_WRITE, StopCause.TAIL_MISMATCH, StopCause.DENIED, StopCause.REFUSED),
    StopCause.PROMOTED,
)
"""The causes that lives come to; what else `stops.ALLOWED` lists could happen and is not waited for."""

REQUESTS = (RequestKind.PAUSE, RequestKind.RESUME, RequestKind.ACCEPT_FOREIGN, RequestKind.RESYNC)
"""What operators of a simulation ask for."""

WANTED = (
    *COMMON,
    *("superseded resync", "unpaired accepted", "consumers put back"),
    *("unpaired compacted", "tails copied again"),
    *("drivers ended by Killed", "drivers ended by ClusterUnavailableError"),
    *("mirrors shut out by markers", "drivers ended by FencedProducerError"),
    *(f"shape: {shape}" for shape in Shape),
    *(f"promise: {promise}" for promise in Promise),
    *(f"target: {mode}" for mode in TargetMode),
    *(f"topic: {kind}" for kind in TopicKind),
    *(f"struck: {fault}" for fault in Fault if fault not in PLOTTED),
    *(f"crashed: {point}" for point in CrashPoint if point not in RARELY_CRASHED),
    *(f"stopped by {cause}" for cause in STOPS if f"stopped by {cause}" not in COMMON),
    *(f"{kind} done" for kind in REQUESTS),
)
"""What chosen seeds, or a thousand others, come to."""


def wanted_of(seeds: int) -> tuple[str, ...]:
    """What so many seeds, whichever they are, are to come to; of a few nothing is asked."""
    if seeds < 300:
        return ()
    return COMMON if seeds < 1000 else WANTED


def missing(names: Iterable[str], tally: Counter[str]) -> list[str]:
    """Those of the names that nothing was counted for."""
    return [name for name in names if not tally[name]]


LEAST_SHARE_WITH_AN_OFFSET = {"one-way": 0.4, "two-way": 0.01}
"""Of the groups that would move: an answer without an offset skips nothing, and one that never has any helps nobody.

Where mirrors write at the source, another flow's way back among them, one map has no place for what they wrote:
groups that have not read it get none.
"""


def seldom_answered(tally: Counter[str]) -> list[str]:
    """Kinds of ways whose answers had an offset less often than they are to."""
    return [
        f"{way}: {answered} of {asked} moves with an offset"
        for way, least in LEAST_SHARE_WITH_AN_OFFSET.items()
        if (asked := tally[f"moves {way}"])
        and (answered := tally[f"moves with an offset {way}"]) < least * asked
    ]
