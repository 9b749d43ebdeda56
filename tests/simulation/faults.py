"""The kinds of trouble of a simulation, which of them may go together, and what is promised under which."""

import random
from enum import StrEnum


class Fault(StrEnum):
    """Kinds of trouble; a simulation has a random set of them. Numbers are those of the fault catalogue."""

    LOST_CONNECTIONS = "lost connections"  # 28
    LEADERS_MOVE = "leaders move"  # 1, 2
    NODES_RESTART = "nodes restart"  # 3; brokers forget what they knew of producers
    NODES_HANG = "nodes hang"  # 8
    REPLICAS_FALL_BEHIND = "replicas fall behind"  # 2, 9
    DISK_FULL = "disk full"  # 25
    CLUSTER_UNREACHABLE = "cluster unreachable"  # 4, 5, 6
    TASKS_DIE = "tasks die"  # 29, 30, 35
    DRIVERS_DIE = "drivers die"  # 30, 31, 32
    CRASH_POINTS = "crash points"  # 29, 30, 31, 32
    ZOMBIES = "zombies"  # 33: tasks and drivers that are given up and live on
    CLOCK_JUMPS = "clock jumps"  # 40
    HANGING_TRANSACTIONS = "hanging transactions"  # 21
    PARTITIONS_ADDED = "partitions added"  # 17
    COMPACTION = "compaction"  # 19
    FOREIGN_WRITES = "foreign writes"  # 27
    PERMISSIONS_DENIED = "permissions denied"  # 78
    SIZE_LIMITS = "size limits"  # 23
    PRODUCERS_EXPIRE = "producers expire"  # by age of timestamps
    IDLE_DAY = "idle day"  # nothing happens for two days, then brokers have forgotten every producer
    TARGET_RECOMPRESSES = "target recompresses"  # 26
    TARGET_COMPACTS = "target compacts"
    SOURCE_RETENTION = "source retention"  # 12, 13
    SOURCE_UNCLEAN = "source unclean"  # 10
    SOURCE_RECREATED = "source recreated"  # 14
    SOURCE_DELETED = "source deleted"  # 16
    TARGET_UNCLEAN = "target unclean"  # 11
    TARGET_RECREATED = "target recreated"  # 11
    TARGET_RETENTION = "target retention"
    GARBLED_READS = "garbled reads"  # bytes that are no record batch, at either side
    CLEANED_MEANWHILE = (
        "cleaned meanwhile"  # 85: cleaners run between a driver's end and the next one's start
    )
    DIRECTION_CHANGES = "direction changes"  # targets are promoted, and demoted again
    SETTLED_MEANWHILE = (
        "settled meanwhile"  # 4, 32: with the driver its source is gone, and the flow is settled
    )
    SOURCE_RESTORED = "source restored"  # 10: brought back from a copy of its folders, under the same epochs


BY_WHOLE_LOGS = frozenset(
    {
        Fault.SOURCE_RETENTION,
        Fault.SOURCE_UNCLEAN,
        Fault.SOURCE_RECREATED,
        Fault.SOURCE_DELETED,
        Fault.TARGET_UNCLEAN,
        Fault.TARGET_RECREATED,
        Fault.TARGET_COMPACTS,
    }
)
"""Faults that take records away; a simulation has one or two of them."""

DRAWN_APART = frozenset(
    {
        *(Fault.TARGET_RETENTION, Fault.GARBLED_READS, Fault.CLEANED_MEANWHILE),
        *(Fault.DIRECTION_CHANGES, Fault.SETTLED_MEANWHILE),
    }
)
"""Drawn from a stream of their own, so that lives without them are what they were."""

FORGETFUL = frozenset({Fault.NODES_RESTART, Fault.PRODUCERS_EXPIRE, Fault.IDLE_DAY})
"""Brokers forget the flow's producer id: at a restart only where the records' times are old."""

_LATE = (
    Fault.LOST_CONNECTIONS,
    Fault.NODES_HANG,
    Fault.REPLICAS_FALL_BEHIND,  # what was appended is seen once they have caught up
    Fault.DISK_FULL,
    Fault.TASKS_DIE,  # what they had sent is executed all the same
    Fault.DRIVERS_DIE,
    Fault.CRASH_POINTS,
    Fault.ZOMBIES,
    Fault.PERMISSIONS_DENIED,
    Fault.SIZE_LIMITS,  # what is on its way behind a refused batch is taken by a broker that forgets just then
    Fault.CLUSTER_UNREACHABLE,  # what had left its sender is executed once the cluster can be reached
)
"""In the order in which one is drawn: one that is added stands last, so that most lives are what they were."""

LATE = frozenset(_LATE)
"""Something may be written, or seen, later than its sender or somebody else believes."""


class Promise(StrEnum):
    """What holds at the target (GUARANTEES)."""

    ONCE = "once"  # every record exactly once
    TOLD = "told"  # a record may be there twice, and the ledger tells of it


def draw_faults(rng: random.Random, allowed: frozenset[Fault], *, old_timestamps: bool) -> frozenset[Fault]:
    """A random set under which every record arrives exactly once."""
    usual = allowed - BY_WHOLE_LOGS - DRAWN_APART
    everyday = [fault for fault in Fault if fault in usual and rng.random() < 0.3]
    taking = [fault for fault in Fault if fault in allowed & BY_WHOLE_LOGS]
    taken = rng.sample(taking, k=min(len(taking), rng.choice((0, 0, 1, 1, 2))))
    faults = {*everyday, *taken}
    forgetful = FORGETFUL if old_timestamps else FORGETFUL - {Fault.NODES_RESTART}
    if faults & forgetful and faults & LATE:
        # Brokers that have forgotten let through what is late: promised to be found, not prevented.
        faults -= rng.choice((forgetful, LATE))
    return frozenset(faults)


def draw_forgetful_faults(rng: random.Random, allowed: frozenset[Fault]) -> frozenset[Fault]:
    """A random set with something late and brokers that forget."""
    usual = allowed - BY_WHOLE_LOGS - DRAWN_APART
    everyday = {fault for fault in Fault if fault in usual and rng.random() < 0.2}
    late = rng.choice(_LATE)
    forgetful = rng.choice([fault for fault in Fault if fault in FORGETFUL])
    return frozenset({*everyday, late, forgetful})


def draw_more(rng: random.Random, allowed: frozenset[Fault]) -> frozenset[Fault]:
    """Which of `DRAWN_APART` are at work as well."""
    return frozenset(fault for fault in Fault if fault in allowed & DRAWN_APART and rng.random() < 0.12)


PLOTTED = frozenset({Fault.SOURCE_RESTORED})
"""Drawn for no life: who plots one asks for it."""

LOSING_ENDS = frozenset({Fault.SOURCE_UNCLEAN, Fault.SOURCE_RESTORED})
"""A source has no more what a flow has read of its end."""
