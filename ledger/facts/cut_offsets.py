"""A cut: where both sides of partition pairs stood at one moment, when nobody wrote to them any more.

What comes after a change of direction begins there: at `reverse_start` on the way back, at the end of the other side
as its target, with nothing read or copied twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

from ledger.facts.codec import decode


class CutSide(StrEnum):
    """Which end of the flow that copied the pair a row is about."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOffset:
    """One partition of a cut, at one side; `is_live` False: its ends are as they were recorded last, or unknown.

    `map_source_end`, `map_target_end`: of the flow's map, None without one. `reverse_start`: of a target.
    """

    operation_id: str
    flow: str
    side: CutSide
    cluster: str
    cluster_id: str | None
    source_topic: str
    topic: str
    topic_id: str
    partition: int
    leader_epoch: int | None = None
    log_start: int | None = None
    last_stable: int | None = None
    high_watermark: int | None = None
    map_source_end: int | None = None
    map_target_end: int | None = None
    reverse_start: int | None = None
    read_at_ms: int | None = None
    is_live: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic} partition {self.partition}"


@dataclass(frozen=True, slots=True)
class CutPair:
    """Both sides of a partition that a flow copied; None: the topic, or the partition, was not there."""

    source: CutOffset | None
    target: CutOffset | None

    @property
    def reverse_start(self) -> int | None:
        return None if self.target is None else self.target.reverse_start

    @property
    def name(self) -> str:
        side = self.target or self.source
        return "" if side is None else side.name

    @property
    def is_copied(self) -> bool:
        """Whether the source was read itself, and ends where the map does."""
        at = self.source
        if at is None or not at.is_live or at.high_watermark is None:
            return False
        return at.high_watermark == 0 if at.map_source_end is None else at.high_watermark <= at.map_source_end

    def why_no_start(self) -> str | None:
        """What keeps the way back from beginning here, in words; None: nothing does."""
        if self.reverse_start is not None:
            return None
        if self.target is None:
            return "nothing had been copied: the target did not have it"
        if self.target.topic != self.target.source_topic:
            return f"it has another name at {self.target.cluster}: nothing goes back from there"
        if self.source is None:
            return f"it is at {self.target.cluster} alone: the way back begins with all of it"
        for at in (self.source, self.target):
            if not at.is_live:
                return f"{at.cluster} was not read itself"
        copied, end = self.source.map_source_end, self.source.high_watermark
        if copied is not None and end is not None and end < copied:
            return f"{self.source.cluster} ended at {end}, and {copied} had been copied from there"
        written, end = self.target.map_target_end, self.target.high_watermark
        if written is not None and end is not None and end < written:
            return f"{self.target.cluster} ended at {end}, and {written} had been written there"
        return f"{self.target.cluster} held copies of flow {self.target.flow} that it had not recorded"


@dataclass(frozen=True, slots=True)
class Cut:
    """What one operation recorded of the flows of a pair of clusters.

    `place`: of several cuts the one with the higher place was taken later; None: nothing was recorded.
    """

    operation_id: str
    offsets: tuple[CutOffset, ...]
    place: int | None = None

    @classmethod
    def of_rows(cls, operation_id: str, rows: Iterable[Mapping[str, Any]]) -> Self:
        """Of two appends for one operation, made at the same moment, the first counts."""
        found = list(rows)
        first = min((row["round"] for row in found), default=None)
        offsets = tuple(decode(CutOffset, row) for row in found if row["round"] == first)
        return cls(operation_id, offsets, first)

    def is_behind(self, other: "Cut") -> bool:
        """Whether it was taken later."""
        return (self.place or 0) > (other.place or 0)

    def pairs(self, flow: str) -> dict[tuple[str, int], CutPair]:
        """Of a flow, by source topic and partition."""
        found: dict[tuple[str, int], CutPair] = {}
        for at in self.offsets:
            if at.flow == flow:
                key = (at.source_topic, at.partition)
                pair = found.get(key, CutPair(None, None))
                found[key] = replace(pair, **{str(at.side): at})
        return dict(sorted(found.items()))

    @property
    def flows(self) -> tuple[str, ...]:
        return tuple(sorted({at.flow for at in self.offsets}))

    def sources_copied(self, topic_ids: Mapping[tuple[str, str], str]) -> list[CutOffset] | None:
        """The source's side of each partition of topics, by flow and source topic their ids, where all is copied.

        None where the cut itself does not show that of each of them.
        """
        found: dict[tuple[str, str], list[CutPair]] = {key: [] for key in topic_ids}
        for flow in {flow for flow, _ in topic_ids}:
            for (topic, _), pair in self.pairs(flow).items():
                if (flow, topic) in found:
                    found[flow, topic].append(pair)
        sources = []
        for key, pairs in found.items():
            of_topic = [pair.source for pair in pairs if pair.source is not None and pair.is_copied]
            is_same = all(at.topic_id == topic_ids[key] for at in of_topic)
            if not pairs or len(of_topic) < len(pairs) or not is_same:
                return None
            sources += of_topic
        return sources

    @property
    def every_pair(self) -> Sequence[CutPair]:
        return [pair for flow in self.flows for pair in self.pairs(flow).values()]

    @property
    def words(self) -> str:
        pairs = self.every_pair
        not_live = sorted({at.cluster for at in self.offsets if not at.is_live})
        began = sum(pair.reverse_start is not None for pair in pairs)
        ledger = f"; {' and '.join(not_live)} as last recorded" if not_live else ""
        return (
            f"cut {self.operation_id} of {', '.join(self.flows) or 'no flow'}: {len(pairs)} partitions, the way back "
            f"may begin with {began} of them{ledger}"
        )

    @property
    def facts(self) -> dict[str, object]:
        """For a receipt: counts alone, the rows are in `cut_offsets`."""
        pairs = self.every_pair
        return {
            "cut": self.operation_id,
            "flows": list(self.flows),
            "partitions": len(pairs),
            "may_begin": sum(pair.reverse_start is not None for pair in pairs),
            "not_live": sorted({at.cluster for at in self.offsets if not at.is_live}),
            "no_start": sorted({why for pair in pairs if (why := pair.why_no_start()) is not None})[:20],
        }
