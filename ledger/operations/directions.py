"""Promoting a cluster over another one, and demoting it: what is asked, compared with configuration and ledger."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from ledger.config.flow import FlowConfig, TargetMode
from ledger.domain.operations.directions import LATER, DirectionChange, Directions, Promoted, is_among
from ledger.domain.topics.naming import NamingKind
from ledger.errors import PreconditionError, UsageError

Copies = Callable[[FlowConfig, str], bool]
"""Whether a flow copies to this topic of its target."""


@dataclass(frozen=True, slots=True)
class Pair:
    """`cluster` is to be promoted over `former`, or demoted; `topics`: of `cluster`, None: all of the pair.

    `later`, `left_out`: as rows of a change of direction have them.
    """

    cluster: str
    former: str
    topics: tuple[str, ...] | None
    later: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return f"{self._what} of {self.cluster} over {self.former}"

    @property
    def _what(self) -> str:
        if not self.is_whole:
            return ", ".join(self.topics or ())
        return f"all topics but {', '.join(self.left_out)}" if self.left_out else "all topics"

    @property
    def is_whole(self) -> bool:
        """Whether topics that nobody has named are among its own."""
        return self.topics is None or self.later

    @property
    def asked(self) -> tuple[str, ...] | None:
        """Its topics, `LATER` among them where it is about those; None: whatever anybody has named."""
        return (*self.topics, LATER) if self.topics is not None and self.later else self.topics

    @property
    def ruled(self) -> tuple[str, ...] | None:
        """Topics whose rules are its own; None: all that there are of the pair."""
        return None if self.is_whole and not self.left_out else self.topics

    def names(self, topic: str) -> bool:
        """Whether it is about a topic of `cluster`, as far as names say."""
        return is_among(topic, self.topics, later=self.later, left_out=self.left_out)

    def flows_of(self, flows: Iterable[FlowConfig], copies: Copies) -> list[FlowConfig]:
        """The flows that it is about; raises `UsageError` where there is none, or a topic is of none.

        Where it is about topics that come later it is about all flows of the pair.
        """
        found = [flow for flow in flows if (flow.source, flow.target) == (self.former, self.cluster)]
        if not found:
            raise UsageError(
                f"no flow of the configuration copies from {self.former} to {self.cluster}; nothing was recorded"
            )
        if self.topics is None or self.later:
            return found
        for topic in self.topics:
            if not any(copies(flow, topic) for flow in found):
                raise UsageError(
                    f"no flow from {self.former} to {self.cluster} copies to topic {topic}; nothing was recorded"
                )
        return [flow for flow in found if any(copies(flow, topic) for topic in self.topics)]


def require_promotable(
    pair: Pair, flows: Sequence[FlowConfig], directions: Directions, *, is_exchange: bool = False
) -> None:
    """Raise `PreconditionError` where applications and mirrors write side by side, or the other side is promoted.

    Only targets with the names of their sources, that are the flow's own, can take over from these: in others mirrors
    and applications never write to one topic, or always may. `is_exchange`: who promotes demotes the other side too,
    when all has come over: until then no flow of either direction writes.
    """
    shared = [flow.name for flow in flows if flow.target_mode is TargetMode.SHARED]
    if shared:
        raise PreconditionError(
            f"target_mode of {_named(shared)} is shared: applications write there beside the mirror at any time, so "
            f"there is nothing to promote; nothing was recorded"
        )
    renaming = [flow.name for flow in flows if flow.topic_naming is not NamingKind.IDENTITY]
    if renaming:
        raise PreconditionError(
            f"{_named(renaming)} gives topics other names at {pair.cluster}, where only the mirror writes to them: "
            "there is nothing to promote. Applications write to topics of the plain names there; nothing was recorded"
        )
    for topic, opposite in directions.promotions(pair.cluster, pair.former, pair.asked).items():
        if opposite is not None and not is_exchange:
            raise PreconditionError(
                f"{topic or 'every topic'} of {pair.former} was promoted over {pair.cluster} {opposite}: applications "
                "and mirrors change sides by a plan; nothing was recorded. "
                f"{planned_way(pair.former, pair.cluster)}"
            )


def require_opposites(flows: Iterable[FlowConfig]) -> list[str]:
    """The flows of the way back; raises `UsageError` where a flow names none: nobody knows what came back to it."""
    alone = [flow.name for flow in flows if flow.opposite is None]
    if alone:
        raise UsageError(
            f"{_named(alone)} names no opposite, so no cut says where it continues behind what was written meanwhile; "
            "nothing was recorded"
        )
    return sorted(flow.opposite for flow in flows if flow.opposite is not None)


def is_done(
    pair: Pair, kind: type[DirectionChange], directions: Directions, *, no_reverse: bool = False
) -> bool:
    """Whether it is so already: nothing is to be recorded."""
    asked = (pair.former, pair.cluster, pair.asked)
    found = directions.promotions(*asked).values()
    if kind is Promoted and no_reverse:
        return directions.without_reverse(*asked)
    if kind is Promoted:
        return all(made_by is not None for made_by in found)
    return all(made_by is None for made_by in found)


def consequences(
    pair: Pair, kind: type[DirectionChange], flows: Collection[FlowConfig], *, is_at_cut: bool = False
) -> str:
    """What holds from now on; `is_at_cut`: what was written at both sides meanwhile is passed."""
    names = _named([flow.name for flow in flows])
    if kind is Promoted:
        return (
            f"{pair.words} is promoted: {names} writes there no more after the round under way, and follows nothing of "
            "it; that it has stopped is said by partition_stopped (status)"
        )
    place = "behind what was written at both sides meanwhile" if is_at_cut else "where it stood"
    return f"{pair.words} is promoted no more: {names} continues {place}"


def planned_way(source: str, target: str) -> str:
    """The command that plans how applications leave one cluster for the other."""
    return f"mirror-ledger plan switchover --from {source} --to {target} --reason WHY"


def require_nothing_behind(pair: Pair, flows: Sequence[FlowConfig], written: Sequence[str]) -> None:
    """Raise `PreconditionError` where the cluster has records that no flow has copied: somebody writes there still.

    A flow that continues where it stood stops at them, or takes them for its own end.
    """
    if not written:
        return
    names = "" if pair.topics is None else "".join(f" --topic {topic}" for topic in pair.topics)
    lines = "\n  ".join(written)
    raise PreconditionError(
        f"{pair.cluster} has records behind what {_named([flow.name for flow in flows])} has copied, and would stop at "
        f"them; nothing was recorded:\n  {lines}\nWhere applications are to come back: "
        f"{planned_way(pair.cluster, pair.former)}. Where they have left {pair.cluster}, and all was copied back: "
        f"mirror-ledger demote {pair.cluster} --over {pair.former}{names} --keep-ends --reason WHY"
    )


def require_not_left(
    cluster: str, topics: Iterable[str], clusters: Iterable[str], directions: Directions, *, undone: str
) -> None:
    """Raise `PreconditionError` where applications have left one of the topics for a cluster promoted over this one."""
    names = sorted({*topics})
    for other in sorted({*clusters} - {cluster}):
        for topic, made_by in directions.promotions(cluster, other, names).items():
            if made_by is not None:
                raise PreconditionError(
                    f"{topic} of {other} was promoted over {cluster} {made_by}: applications work at {other}, not at "
                    f"{cluster}; {undone}. Once they have stopped there and all is copied back: mirror-ledger demote "
                    f'{other} --over {cluster} --keep-ends --reason "home again"'
                )


def _named(flows: Sequence[str]) -> str:
    return f"flow {' and '.join(sorted(flows))}"
