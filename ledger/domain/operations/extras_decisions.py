"""What operators decided about extras: records that a cluster alone has, behind the end of the maps from it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self

from ledger.domain.operations.content import OperationContent
from ledger.domain.operations.kinds import OperationKind


class ExtrasPolicy(StrEnum):
    """What is to become of extras."""

    KEEP_LOCAL = "keep_local"  # they stay where they are, and are copied nowhere
    SALVAGE = "salvage"  # they stay, and are copied to a topic of their own
    REPLICATE = "replicate"  # they are copied as all others
    RECREATE = "recreate"  # they are given up with their topic, which is created again


STAY_LOCAL = frozenset({ExtrasPolicy.KEEP_LOCAL, ExtrasPolicy.SALVAGE})
"""Policies by which extras come to no other side, so that no group has to read them there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraRange:
    """Offsets `[extra_start, extra_end)` of a partition."""

    partition: int
    extra_start: int
    extra_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtrasDecided(OperationContent):
    """A decision about extras of a topic, by its id; `cluster_id`: of the cluster, None when nobody has recorded it.

    `policy`: an `ExtrasPolicy`, or what a later program knows. Of several decisions on an offset the last counts.
    """

    kind: ClassVar = OperationKind.EXTRAS_DECIDED
    cluster: str
    cluster_id: str | None
    topic: str
    topic_id: str
    policy: str
    ranges: tuple[ExtraRange, ...]

    def content(self) -> dict[str, object]:
        return {**OperationContent.content(self), "ranges": [asdict(one) for one in self.ranges]}

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        ranges = tuple(
            ExtraRange(partition=one["partition"], extra_start=one["extra_start"], extra_end=one["extra_end"])
            for one in content["ranges"]
        )
        named = {name: content[name] for name in ("cluster", "cluster_id", "topic", "topic_id", "policy")}
        return cls(**named, ranges=ranges)
