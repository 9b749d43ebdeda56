"""Which direction of a pair of clusters holds: promotions of a cluster, and what takes them back."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Self

from ledger.facts.codec import LEFT_OUT
from ledger.facts.fences import FENCE_KINDS, Fence, Unfenced
from ledger.facts.operations import OperationContent, OperationKind
from ledger.facts.requests import asked_in_words
from ledger.facts.tables import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionChange(OperationContent):
    """Of a pair of clusters by alias, with the Kafka cluster ids that they had.

    `cluster`: the one that is promoted, or was; `former`: where applications wrote before. `topics`: their names at
    `cluster`, whatever their ids; None: all of the pair, later ones too. `later`: those that nobody has named come
    with the named ones, less what was `left_out` by name.
    """

    cluster: str
    cluster_id: str
    former: str
    former_id: str
    topics: tuple[str, ...] | None
    later: bool = field(default=False, metadata=LEFT_OUT)
    left_out: tuple[str, ...] = field(default=(), metadata=LEFT_OUT)

    def covers(self, source: str, target: str, topic: str) -> bool:
        """Whether it is about a flow from `source` into this topic of `target`."""
        return (self.former, self.cluster) == (source, target) and self.names(topic)

    def names(self, topic: str) -> bool:
        """Whether it is about a topic of `cluster`."""
        return is_among(topic, self.topics, later=self.later, left_out=self.left_out)

    @property
    def named(self) -> frozenset[str]:
        """Topics that it names, whether it is about them or leaves them out."""
        return frozenset((*(self.topics or ()), *self.left_out))


def is_among(
    topic: str, topics: Collection[str] | None, *, later: bool = False, left_out: Collection[str] = ()
) -> bool:
    """Whether a topic is one of these: of all (None), of those that are named, or of those that come later too."""
    return topics is None or topic in topics or (later and topic not in left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted(DirectionChange):
    """Applications write at a cluster from now on, instead of at another one ("Directions").

    By `mirror-ledger promote`. `flow` of the row is null.

    Keys: `cluster` (alias), `cluster_id`, `former` (alias: where they wrote before), `former_id`, `topics` (names at
    `cluster`; null: all of the pair, later ones too), `later` (true: those too that are neither named nor in
    `left_out`; left out: no others), `left_out` (names at `cluster`; left out: none), `no_reverse` (true: nothing is
    to be mirrored back, by the operator's word; left out: something is).
    """

    kind: ClassVar = OperationKind.PROMOTED
    no_reverse: bool = field(default=False, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demoted(DirectionChange):
    """Applications do not write at a cluster any more ("Directions").

    By `mirror-ledger demote`. `flow` of the row is null.

    Keys: `cluster`, `cluster_id`, `former`, `former_id`, `topics`, `later`, `left_out`, `cut_operation` (whose cut
    says where flows from `former` continue; left out: where they stood).
    """

    kind: ClassVar = OperationKind.DEMOTED
    cut_operation: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBackTopic:
    """A topic of the cluster that is back."""

    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBackOpened(OperationContent):
    """A cluster that was lost gets what was written since at the one that was promoted over it ("Extras").

    By `mirror-ledger mirror-back` and the step `mirror_back` of a failback, when what it has alone is decided. Flows
    that go this way begin at its cut, without `--from-cut`. `flow` of the row is null.

    Keys: `cluster` (alias: the one that is back), `cluster_id`, `promoted` (alias: where applications write),
    `promoted_id`, `topics`: `topic`, `topic_id` at `cluster` each. Its cut has the operation id of the row.
    """

    kind: ClassVar = OperationKind.WAY_BACK_OPENED
    cluster: str
    cluster_id: str
    promoted: str
    promoted_id: str
    topics: tuple[WayBackTopic, ...]


@dataclass(frozen=True, slots=True)
class WayBack:
    """Since when topics of a cluster that is back get what is written at the promoted one.

    `at`: behind so many changes of direction it was recorded. `operation_id`: of its cut.
    """

    opened: WayBackOpened
    operation_id: str
    at: int

    def covers(self, source: str, target: str, topic: str) -> bool:
        """Whether a flow from `source` into this topic of `target` begins there."""
        is_this_way = (self.opened.promoted, self.opened.cluster) == (source, target)
        return is_this_way and any(one.topic == topic for one in self.opened.topics)

    def holds(self, topic: str, topic_id: str) -> bool:
        """Whether it is about this incarnation of a topic of the cluster that is back."""
        return WayBackTopic(topic=topic, topic_id=topic_id) in self.opened.topics


Promotion = Callable[[str], str | None]
"""Why a flow may not write to a topic of its target at present, in words; None: it may."""


def nothing_promoted(_target_topic: str) -> str | None:
    return None


LATER = ""
"""Stands for the topics of a pair that nobody has named; no topic has that name."""


class HeldBack(StrEnum):
    """Why a flow leaves a topic of its target alone. The first that applies, in this order, is the reason."""

    PROMOTED = "promoted"  # the target was promoted over its source
    OPPOSITE_HOLDS = "opposite_holds"  # the flow of the other direction holds


DIRECTION_KINDS = (OperationKind.PROMOTED, OperationKind.DEMOTED)
DIRECTION_ROWS = (*DIRECTION_KINDS, OperationKind.DRIVER_STARTING, OperationKind.WAY_BACK_OPENED)
"""What `Directions` reads: the changes, which flow was started before which, and where a way back begins."""


@dataclass(frozen=True, slots=True)
class Directions:
    """All changes of direction, in the order of the operators' serial, each with who made it, in words.

    `started`: by flow, where in that serial its first driver was started: before that driver's claim, so before
    anything that the flow wrote, and by no clock. `ways_back`: to clusters that were lost, in the same order.
    """

    changes: tuple[tuple[DirectionChange, str], ...] = ()
    started: Mapping[str, int] = field(default_factory=dict)
    ways_back: tuple[WayBack, ...] = ()

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `operations` of `DIRECTION_ROWS`, in the order of their stamps."""
        changes: list[tuple[DirectionChange, str]] = []
        started: dict[str, int] = {}
        ways_back: list[WayBack] = []
        for row in rows:
            if row["kind"] == OperationKind.DRIVER_STARTING:
                started.setdefault(row["flow"], row["round"])
            elif row["kind"] == OperationKind.WAY_BACK_OPENED:
                ways_back.append(WayBack(WayBackOpened.of_row(row), row["operation_id"], len(changes)))
            else:
                changes.append((_change(row), asked_in_words(row)))
        return cls(tuple(changes), started, tuple(ways_back))

    def promotion(self, source: str, target: str, topic: str) -> str | None:
        """Who promoted a topic of `target` over `source`, and when, in words; None: it is not promoted now.

        Of all changes that are about it the last counts.
        """
        active = self.active(source, target, topic)
        return active[-1] if active else None

    def are_applications_at(self, cluster: str, other: str, topic: str) -> bool:
        """Whether a topic of `cluster` was promoted over `other` and is so still, and nothing has been promoted the
        other way since: by a failover both are, until the lost one is mirrored back to."""
        if self.promotion(other, cluster, topic) is None:
            return False
        (_, here), (_, there) = self._last(other, cluster, topic), self._last(cluster, other, topic)
        return self.promotion(cluster, other, topic) is None or here > there

    def was_ever_promoted(self, cluster: str, topic: str) -> bool:
        """Whether applications may have written to a topic of `cluster`, whatever was demoted since."""
        return any(
            isinstance(change, Promoted) and change.cluster == cluster and change.names(topic)
            for change, _ in self.changes
        )

    def active(self, source: str, target: str, topic: str) -> tuple[str, ...]:
        """The same of each promotion since the topic was demoted last, in order: any of them holds drivers back."""
        return tuple(words for _, words in self._active(source, target, topic))

    def kept_ends(self, source: str, target: str, topic: str) -> str | None:
        """Whose cut says where a flow from `source` continues with a topic of `target`: that of the way back to it, or
        of its demotion, whichever was recorded later; None: no cut does."""
        way_back = self.way_back(source, target, topic)
        last, at = self._last(source, target, topic)
        if way_back is not None and way_back.at >= at:
            return way_back.operation_id
        return last.cut_operation if isinstance(last, Demoted) else None

    def way_back(self, source: str, target: str, topic: str) -> WayBack | None:
        """Where a flow from `source`, which was promoted over `target`, brings back what was written there since; None:
        what is to become of what `target` alone has was not decided since the promotion."""
        _, promoted_at = self._last(target, source, topic)
        found = [one for one in self.ways_back if one.covers(source, target, topic)]
        is_now = found and found[-1].at >= promoted_at and self.promotion(target, source, topic) is not None
        return found[-1] if is_now else None

    def _last(self, source: str, target: str, topic: str) -> tuple[DirectionChange | None, int]:
        """The last change about a topic, and how many changes there were then; None and 0: there was none."""
        about = [
            (change, number)
            for number, (change, _) in enumerate(self.changes, start=1)
            if change.covers(source, target, topic)
        ]
        return about[-1] if about else (None, 0)

    def goes_before(self, flow: str, opposite: str) -> bool:
        """Whether it is this flow whose direction holds while nobody has said where applications write."""
        own, other = self.started.get(flow), self.started.get(opposite)
        return other is None or (own is not None and own < other)

    def held_back(
        self, flow: str, opposite: str | None, *, source: str, target: str, topic: str
    ) -> HeldBack | None:
        """Why a flow from `source` may not write to this topic of `target`; None: it may."""
        if self.promotion(source, target, topic) is not None:
            return HeldBack.PROMOTED
        is_own = opposite is None or self.promotion(target, source, topic) is not None
        if opposite is None or is_own or self.goes_before(flow, opposite):
            return None
        return HeldBack.OPPOSITE_HOLDS

    def promotions(self, source: str, target: str, topics: Iterable[str] | None) -> dict[str, str | None]:
        """By topic of `target` who promoted it over `source`, None: nobody now; `topics` None: all that there may be.

        Topics that nobody has named are one, `LATER`.
        """
        named = self._named(source, target) if topics is None else topics
        return {topic: self.promotion(source, target, topic) for topic in sorted(named)}

    def without_reverse(self, source: str, target: str, topics: Iterable[str] | None) -> bool:
        """Whether all of these are promoted, and it was said of each that nothing is to be mirrored back."""
        named = self._named(source, target) if topics is None else topics
        return all(any(one.no_reverse for one, _ in self._active(source, target, topic)) for topic in named)

    def _named(self, source: str, target: str) -> set[str]:
        of_pair = [one for one, _ in self.changes if (one.former, one.cluster) == (source, target)]
        return {LATER, *(topic for one in of_pair for topic in one.named)}

    def _active(self, source: str, target: str, topic: str) -> list[tuple[Promoted, str]]:
        """Promotions of a topic since it was demoted last."""
        active: list[tuple[Promoted, str]] = []
        for change, words in self.changes:
            if change.covers(source, target, topic):
                active = [*active, (change, words)] if isinstance(change, Promoted) else []
        return active


def _change(row: Row) -> DirectionChange:
    is_promotion = row["kind"] == OperationKind.PROMOTED
    return Promoted.of_row(row) if is_promotion else Demoted.of_row(row)


# Standing -----------------------------------------------------------------------------------------
# What stands about a promoted topic: by which operation it was promoted, what keeps writers from where it
# was.
#
# It is read from the rows of directions and fences in the order of the operators' serial, since what was
# said of a fence before a topic was promoted says nothing about the promotion.


DIRECTION_AND_FENCE_KINDS = (*DIRECTION_KINDS, *FENCE_KINDS)
"""Kinds of the rows that are read."""


class FenceState(StrEnum):
    """What became of the fence of a topic where applications wrote before."""

    NONE = "none"  # nobody has made one, or it was lifted before the promotion
    STANDS = "stands"  # proved or not: that is said of the fence itself
    LIFTED = "lifted"  # since the promotion: somebody has said that it need not be


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivePromotion:
    """A topic that is promoted now, as the last promotion about it has it."""

    operation_id: str
    promoted_at_ms: int
    no_reverse: bool
    fence: FenceState


_Content = Promoted | Demoted | Fence | Unfenced
_CONTENT_OF: Mapping[str, type[_Content]] = {one.kind: one for one in (Promoted, Demoted, Fence, Unfenced)}


@dataclass(frozen=True, slots=True)
class DirectionRows:
    """Rows of `DIRECTION_AND_FENCE_KINDS` with what they say, in order: read once for any number of topics."""

    rows: Sequence[tuple[Row, _Content]]

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> "DirectionRows":
        return cls(
            [(row, _CONTENT_OF[row["kind"]].of_row(row)) for row in rows if row["kind"] in _CONTENT_OF]
        )

    def promotion(self, *, source: str, target: str, source_topic: str, topic: str) -> ActivePromotion | None:
        """Of `topic` of `target` over `source_topic` of `source`; None: it is not promoted.

        Where it was promoted several times since it was demoted last, one that nothing is to be mirrored back by
        counts.
        """
        found: ActivePromotion | None = None
        fence = FenceState.NONE
        for row, content in self.rows:
            match content:
                case Promoted() if content.covers(source, target, topic):
                    fence = FenceState.NONE if found is None and fence is FenceState.LIFTED else fence
                    found = _promoted(row, content, found)
                case Demoted() if content.covers(source, target, topic):
                    found = None
                case Fence() if (content.cluster, content.topic) == (source, source_topic):
                    fence = FenceState.STANDS
                case Unfenced() if (content.cluster, content.topic) == (source, source_topic):
                    fence = FenceState.LIFTED
        return None if found is None else replace(found, fence=fence)


def _promoted(row: Row, promoted: Promoted, before: ActivePromotion | None) -> ActivePromotion:
    return ActivePromotion(
        operation_id=row["operation_id"],
        promoted_at_ms=row["recorded_at_ms"],
        no_reverse=promoted.no_reverse or (before is not None and before.no_reverse),
        fence=FenceState.NONE,
    )
