"""Where a process can die between two effects, and the plan of which of them it dies at."""

import random
from collections import Counter
from enum import StrEnum


class CrashPoint(StrEnum):
    """The effect before the name has happened, the next one has not. Numbers are those of the fault catalogue."""

    PRODUCER_ID_ALLOCATED = "producer id allocated"  # and not recorded
    EPOCH_CLAIMED_ON_ONE_TABLE = "epoch claimed on one table"  # the others still take the earlier epoch
    CLAIM_RECORDED = "claim recorded"  # nothing was copied in it
    TOPIC_CREATED = "topic created"
    PARTITIONS_ADDED = "partitions added"
    FETCHED = "fetched"  # 29
    BATCH_PRODUCED = "batch produced"  # 30: at the target, its answer lost
    ACKNOWLEDGED = "acknowledged"  # 30
    ROUND_HANDED_OVER = "round handed over"  # and the next one begun, while the driver records it
    TASK_DONE = "task done"  # 30, 35: its facts lost on the way to the driver
    TASKS_RETURNED = "tasks returned"  # 30
    FACTS_HANDED_OVER = "facts handed over"  # to the appender, which dies with the driver
    FACTS_APPENDED = "facts appended"  # 31: the driver does not learn of it
    OPERATION_RECORDED = "operation recorded"
    RELEASED = "released"


class CrashPlan:
    """Says at which passing of which point a process dies: at the first ones, or by chance."""

    def __init__(
        self,
        rng: random.Random,
        points: frozenset[CrashPoint],
        *,
        chance: float,
        certain: int = 0,
    ) -> None:
        self._rng = rng
        self._points = points
        self._chance = chance
        self._certain = certain
        self.is_over = False
        self.crashed: Counter[CrashPoint] = Counter()

    @classmethod
    def none(cls) -> "CrashPlan":
        return cls(random.Random(0), frozenset(), chance=0.0)

    def strikes(self, point: CrashPoint) -> bool:
        """Whether the process that has just reached the point dies there."""
        if self.is_over or point not in self._points:
            return False
        if self.crashed[point] >= self._certain and self._rng.random() >= self._chance:
            return False
        self.crashed[point] += 1
        return True
