"""Whether a flow stands as the directions that hold say: what of its stops is no alarm, and what is to be done.

A partition that stopped because the other direction holds is as it should be, as long as that direction holds by the
rows of now. Of a promoted topic three more things have to be so: something keeps applications from where they wrote
before, a driver at work does not copy there any more, and the way back is copied, unless somebody said that it is not
to be.
"""

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger.answers.drivers import DriverReport, DriverState
from ledger.changeover.pairs import way_home
from ledger.facts.direction import (
    DIRECTION_AND_FENCE_KINDS,
    DIRECTION_ROWS,
    ActivePromotion,
    DirectionRows,
    Directions,
    FenceState,
    HeldBack,
)
from ledger.facts.extras import DecidedExtras, ExtrasDecided
from ledger.facts.fences import FENCE_KINDS, ActiveFence, Fence, FenceHow, Fences, Unfenced
from ledger.facts.findings import EXPLAINED, FindingName
from ledger.facts.hand_overs import HAND_OVER_KINDS, LIMIT, HandOvers
from ledger.facts.operations import FINDING_KINDS, FindingRaised, open_findings
from ledger.facts.rows import TopicEvent
from ledger.facts.syncs import without
from ledger.facts.tables import Row, in_order
from ledger.topics.following import is_fence
from ledger.words import counted, shell_word, some_of

Place = tuple[str, str, int]
"""Topic, topic id and partition."""
DIRECTION_REPORT_KINDS = tuple(
    dict.fromkeys((*DIRECTION_AND_FENCE_KINDS, *DIRECTION_ROWS, ExtrasDecided.kind, *HAND_OVER_KINDS))
)
"""Kinds of the rows of `operations` that a report is made from."""
_AT_WORK = (DriverState.RUNNING, DriverState.STARTING, DriverState.CLAIMED)
"""A start that takes too long is reported of the flow that starts."""


class WayBack(StrEnum):
    """What brings a promoted topic back to where applications wrote before. The first that applies is reported."""

    NOT_WANTED = "not_wanted"  # it was promoted with these words
    NO_FLOW = "no_flow"  # the flow has no opposite
    DISABLED = "disabled"  # the configuration says that it is not to run
    AT_WORK = "at_work"  # its driver runs, or ran at a past cut
    NOT_AT_WORK = "not_at_work"


@dataclass(frozen=True, slots=True, kw_only=True)
class OppositeFlow:
    """The flow of the other direction; `driver` finds its last driver, `copied_to` where its map ends at the source by
    partition: only a promotion asks for these."""

    name: str
    enabled: bool
    driver: Callable[[], DriverReport]
    copied_to: Callable[[], Mapping[Place, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWay:
    """A flow whose direction is asked about. `is_mirrored`: whether its configuration selects a source topic.

    `opposite` None: it has none. `begins_at`: whether a flow can begin at the cut of an operation. `moving`: groups
    whose commits on topics of a cluster have moved lately, and since an instant, ms.
    """

    flow: str
    source: str
    target: str
    is_mirrored: Callable[[str], bool]
    opposite: OppositeFlow | None
    begins_at: Callable[[str, str], bool]
    moving: Callable[[str, Collection[str], int], Collection[str]] = lambda _cluster, _topics, _since_ms: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionReport:
    """Topics of the source by what holds them back: the target is `promoted`, or the flow `waits` for the other one.

    `way_back`: None, nothing is promoted. `extras_at_most`: records that the source has, the flow has not copied, and
    nobody has decided about, None: unknown of some partition; `extras_kept`: offsets that were decided to stay there.
    `gave_way`: all that the flow copies is promoted: it needs no driver. `stands_by`: the opposite flow has run,
    and this one never: it is not to before the direction changes. `over`: topics that were stopped for a direction that
    holds no more, `start`: the command that continues with them, None: a driver does.
    `attention`: what is not as the directions say, with what to do; `remarks`: what is, and is worth saying.
    """

    promoted: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    way_back: WayBack | None = None
    extras_at_most: int | None = 0
    extras_kept: int = 0
    gave_way: bool = False
    stands_by: bool = False
    over: tuple[str, ...] = ()
    start: str | None = None
    attention: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def explains(self, topic: str, cause: str) -> bool:
        """Whether a partition of a source topic stands still as it has to, by a cause as it was recorded."""
        held = {HeldBack.PROMOTED: self.promoted, HeldBack.OPPOSITE_HOLDS: self.waits}
        return any(cause == why and topic in topics for why, topics in held.items())


def direction_report(
    way: OneWay, driver: DriverReport, *, is_paused: bool, partitions: Iterable[Row], rows: Sequence[Row]
) -> DirectionReport:
    """From rows of `flow_status` with their lag, and rows of `DIRECTION_REPORT_KINDS` in order.

    `is_paused`: the whole flow is, so its driver stops no partition.
    """
    directions = Directions.of_rows(row for row in rows if row["kind"] in DIRECTION_ROWS)
    known = [row for row in partitions if way.is_mirrored(row["source_topic"])]
    names = {row["source_topic"]: _target_topic(row) for row in known}
    held = {topic: _held(way, directions, name) for topic, name in names.items()}
    active = DirectionRows.of_rows(rows)
    promoted = {
        topic: found
        for topic, name in names.items()
        if (found := active.promotion(source=way.source, target=way.target, source_topic=topic, topic=name))
    }
    # By a failover behind a failback both sides are promoted, until the lost one is mirrored to again.
    now = {
        topic: found
        for topic, found in promoted.items()
        if directions.are_applications_at(way.target, way.source, names[topic])
    }
    of_promoted = [row for row in known if row["source_topic"] in now]
    back = _way_back(way, now.values()) if now else None
    decided = DecidedExtras.of_rows(row for row in rows if row["kind"] == ExtrasDecided.kind)
    extras = _extras(of_promoted, _on_their_way(way, back))
    kept = sum(_kept(row, decided) for row in of_promoted)
    at_source, at_both = _groups_at_work(way, now, names)
    waits = tuple(sorted(topic for topic, why in held.items() if why is HeldBack.OPPOSITE_HOLDS))
    over = [row for row in known if row["stop_cause"] in set(HeldBack) and held[row["source_topic"]] is None]
    names_over = sorted({row["source_topic"] for row in over})
    here = _not_begun(way.source, way.target, names_over, directions, active)
    start = _start(way, way.flow, driver, here) or way_home(way.source, way.target)
    is_calm = stands_by(way, driver)
    waits_for = "its driver, which is at work" if driver.state in _AT_WORK else start
    over_words = (
        f"{counted(len(over), 'partition')} stopped for a direction that holds no more; next: {waits_for}"
    )
    return DirectionReport(
        promoted=tuple(sorted(promoted)),
        waits=waits,
        way_back=back,
        extras_at_most=extras,
        extras_kept=kept,
        gave_way=bool(promoted) and promoted.keys() == held.keys(),
        stands_by=is_calm,
        over=tuple(names_over),
        start=start if over and driver.state not in _AT_WORK else None,
        attention=(
            *([over_words] if over else []),
            *_without_fence(way, now, of_promoted),
            *(
                []
                if is_paused
                else _not_stopped(way, driver, [one for one in known if one["source_topic"] in promoted])
            ),
            *_way_back_lacks(way, back, _not_begun(way.target, way.source, now, directions, active)),
            *_at_both_sides(way, at_both),
        ),
        remarks=(
            *_promoted_words(way, back, of_promoted),
            *_extras_words(way, extras, kept),
            *_left_again(way, promoted.keys() - now.keys()),
            *_reading_words(way, Fences.of_rows(row for row in rows if row["kind"] in FENCE_KINDS), now),
            *_held_words(way, HandOvers.of_rows(row for row in rows if row["kind"] in HAND_OVER_KINDS), now),
            *_left_behind(way, at_source - at_both),
            *_waits_words(way, waits),
            *(["it stands by for a change of direction"] if is_calm else []),
        ),
    )


def _held(way: OneWay, directions: Directions, topic: str) -> HeldBack | None:
    opposite = None if way.opposite is None else way.opposite.name
    return directions.held_back(way.flow, opposite, source=way.source, target=way.target, topic=topic)


def _target_topic(row: Row) -> str:
    """A topic that the flow never began has the same name there: others are never promoted."""
    return str(row["target_topic"] or row["source_topic"])


# What has to be so ------------------------------------------------------------------------------


def _without_fence(
    way: OneWay, promoted: Mapping[str, ActivePromotion], partitions: Iterable[Row]
) -> list[str]:
    """Of topics that the flow has copied: others were never an application's at the source while it mirrored."""
    copied = {row["source_topic"] for row in partitions if row["source_end"] is not None}
    open_to_all = sorted(
        topic for topic in copied if topic in promoted and promoted[topic].fence is FenceState.NONE
    )
    if not open_to_all:
        return []
    return [
        f"nobody has fenced {some_of(open_to_all, 'topic')} of {way.source}, where applications wrote before: "
        f"mirror-ledger fence {way.source} --reason WHY"
    ]


def _not_stopped(way: OneWay, driver: DriverReport, partitions: Iterable[Row]) -> list[str]:
    if driver.state is not DriverState.RUNNING:
        return []
    number = sum(row["source_end"] is not None and row["stop_cause"] is None for row in partitions)
    if not number:
        return []
    return [
        f"{counted(number, 'partition')} promoted at {way.target} and not stopped yet: the driver stops them after its "
        f"round; else mirror-ledger stop {way.flow}"
    ]


def _way_back(way: OneWay, promoted: Collection[ActivePromotion]) -> WayBack:
    if all(one.no_reverse for one in promoted):
        return WayBack.NOT_WANTED
    if way.opposite is None:
        return WayBack.NO_FLOW
    if not way.opposite.enabled:
        return WayBack.DISABLED
    return WayBack.AT_WORK if way.opposite.driver().state in _AT_WORK else WayBack.NOT_AT_WORK


def _way_back_lacks(way: OneWay, back: WayBack | None, promoted: Collection[ActivePromotion]) -> list[str]:
    said = f"what is written at {way.target} is not mirrored back to {way.source}"
    no_reverse = f"mirror-ledger promote {way.target} --over {way.source} --no-reverse --reason WHY"
    else_said = f"or {no_reverse} says that it need not be"
    if back is WayBack.NO_FLOW:
        return [f"{said}: flow {way.flow} has no opposite; configure one, {else_said}"]
    if back is not WayBack.NOT_AT_WORK:
        return []
    assert way.opposite is not None, "what is not at work is a flow"
    name, driver = way.opposite.name, way.opposite.driver()
    plan = f"{way_home(way.target, way.source)} (with --stop-before switch applications stay)"
    advice = _start(way, name, driver, promoted) or plan
    return [f"{said}: the driver of {name} is not at work ({driver.state}); {advice}, {else_said}"]


def _not_begun(
    source: str, target: str, topics: Iterable[str], directions: Directions, active: DirectionRows
) -> list[ActivePromotion]:
    """Promotions of a source, by which topics change their direction that no cut of the ledger lets begin there."""
    names = [one for one in topics if directions.kept_ends(source, target, one) is None]
    found = [active.promotion(source=target, target=source, source_topic=one, topic=one) for one in names]
    return [*filter(None, found)]


def _start(way: OneWay, flow: str, driver: DriverReport, promoted: Collection[ActivePromotion]) -> str | None:
    """The command that starts a flow by what promoted its source; None: something has to come first."""
    last = max(promoted, key=lambda one: one.promoted_at_ms, default=None)
    if last is None or (driver.claimed_at_ms or 0) > last.promoted_at_ms:
        return f"mirror-ledger run {shell_word(flow)}"
    is_at_cut = way.begins_at(flow, last.operation_id)
    return f"mirror-ledger run {shell_word(flow)} --from-cut {last.operation_id}" if is_at_cut else None


def _groups_at_work(
    way: OneWay, promoted: Mapping[str, ActivePromotion], names: Mapping[str, str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Groups whose commits on promoted topics moved at the source since, and of these those that do so at the target
    too."""
    if not promoted:
        return frozenset(), frozenset()
    since_ms = max(one.promoted_at_ms for one in promoted.values())
    at_source = frozenset(way.moving(way.source, tuple(promoted), since_ms))
    if not at_source:
        return frozenset(), frozenset()
    at_target = way.moving(way.target, tuple(names[topic] for topic in promoted), since_ms)
    return at_source, at_source.intersection(at_target)


def _at_both_sides(way: OneWay, groups: Collection[str]) -> list[str]:
    if not groups:
        return []
    found = some_of(sorted(map(repr, groups)), "group")
    return [
        f"{found} at work at {way.target} and at {way.source}: stop the consumers at {way.source}, for they read what "
        f"comes back from {way.target}"
    ]


# What is worth saying ---------------------------------------------------------------------------


def _promoted_words(way: OneWay, back: WayBack | None, partitions: Sequence[Row]) -> list[str]:
    if back is None:
        return []
    number = sum(row["stop_cause"] == HeldBack.PROMOTED for row in partitions)
    stopped = f"{counted(number, 'partition')} stopped for that" if number else "its driver copies none of it"
    words = {
        WayBack.NOT_WANTED: "; nothing is mirrored back, as was said with the promotion",
        WayBack.DISABLED: "; nothing is mirrored back, its opposite is disabled",
        WayBack.AT_WORK: "" if way.opposite is None else f"; {way.opposite.name} copies back",
    }
    return [f"{way.target} is promoted over {way.source}: {stopped}{words.get(back, '')}"]


def _left_again(way: OneWay, topics: Collection[str]) -> list[str]:
    """Of topics that applications came to once, and have left for where they had been before."""
    if not topics:
        return []
    return [
        f"applications are at {way.source}, which was promoted over {way.target} since: {way.flow} copies "
        f"{some_of(sorted(topics), 'topic')} there again once that is decided: mirror-ledger plan failback --from "
        f"{way.source} --to {way.target} --reason WHY"
    ]


def stands_by(way: OneWay, driver: DriverReport) -> bool:
    """Whether a flow has never run beside its opposite, which has."""
    if driver.state is not DriverState.NEVER_RAN or way.opposite is None:
        return False
    return way.opposite.driver().state is not DriverState.NEVER_RAN


def _on_their_way(way: OneWay, back: WayBack | None) -> Callable[[Row], int]:
    """How many records of a source partition lie where the way back writes and has not recorded yet: copies that are
    under way. What others write there stops it, and is reported then."""
    if back is not WayBack.AT_WORK or way.opposite is None:
        return lambda _row: 0
    copied_to = way.opposite.copied_to()

    def lying_behind(row: Row) -> int:
        end = copied_to.get((row["source_topic"], row["source_topic_id"], row["source_partition"]))
        if end is None or row["last_stable"] is None:
            return 0
        return max(int(row["last_stable"]) - max(end, row["mirrored_end"] or 0), 0)

    return lying_behind


def _extras(partitions: Iterable[Row], on_their_way: Callable[[Row], int]) -> int | None:
    """Lag that nobody will make up while the target is promoted; what is not to be copied is not in it."""
    copied = [row for row in partitions if row["source_end"] is not None]
    if any(row["lag_records"] is None for row in copied):
        return None
    return sum(max(int(row["lag_records"]) - on_their_way(row), 0) for row in copied)


def _kept(row: Row, decided: DecidedExtras) -> int:
    """How many offsets behind the map were decided to stay at the source."""
    if row["source_end"] is None or row["last_stable"] is None:
        return 0
    local = decided.local.get((row["source_topic_id"], row["source_partition"]), ())
    behind = int(row["source_end"]), int(row["last_stable"])
    if behind[0] >= behind[1]:
        return 0
    return behind[1] - behind[0] - sum(end - start for start, end in without(behind, local))


def _extras_words(way: OneWay, extras: int | None, kept: int) -> list[str]:
    stay = f"{counted(kept, 'offset')} stay at {way.source}, as was decided"
    if extras == 0:
        return [stay] if kept else []
    many = "an unknown number of records" if extras is None else f"at most {counted(extras, 'record')}"
    besides = f", besides {counted(kept, 'offset')} that stay there by decision" if kept else ""
    return [
        f"{many} at {way.source} alone{besides}: mirror-ledger query one_sided_records "
        f"--param from_cluster={way.target} --param to_cluster={way.source}"
    ]


def _reading_words(way: OneWay, fences: Fences, promoted: Collection[str]) -> list[str]:
    """Whether groups can read where they read before: what lies there alone, and all that comes back."""
    made = [one.fence for one in fences.at(way.source) if one.fence.topic in promoted and one.fence.is_made]
    closed = [one.topic for one in made if one.is_for_reading]
    open_ones = [one.topic for one in made if not one.is_for_reading]
    by_rules = [one.topic for one in made if not one.is_for_reading and one.how == FenceHow.CLOSED]
    words = [f"groups cannot read {some_of(closed, 'topic')} of {way.source}"] if closed else []
    if open_ones:
        advice = (
            f": mirror-ledger fence {way.source} --reading --reason WHY keeps them out" if by_rules else ""
        )
        words.append(f"groups can still read {some_of(open_ones, 'topic')} of {way.source}{advice}")
    return words


def _held_words(way: OneWay, recorded: HandOvers, promoted: Collection[str]) -> list[str]:
    held = sorted({topic for topic, _ in recorded.before_held(way.source)}.intersection(promoted))
    return (
        [f"nothing is deleted of {some_of(held, 'topic')} of {way.source}: retention is held"] if held else []
    )


def _left_behind(way: OneWay, groups: Collection[str]) -> list[str]:
    return [f"{some_of(sorted(map(repr, groups)), 'group')} at work at {way.source}"] if groups else []


def _waits_words(way: OneWay, waits: Sequence[str]) -> list[str]:
    if not waits or way.opposite is None:
        return []
    return [f"{counted(len(waits), 'topic')} left to {way.opposite.name}, whose direction holds"]


# Report -------------------------------------------------------------------------------------------
# What of fences needs attention: those that are not proved, and records that were written behind one.


_NAMED_AT_MOST = 3
REPORT_KINDS = (*FENCE_KINDS, *FINDING_KINDS)


@dataclass(frozen=True, slots=True)
class FenceAttention:
    """A fence of topics of a cluster that is open or that nobody has recorded, or a partition that was written to
    behind one."""

    cluster: str
    topics: tuple[str, ...]
    state: str
    message: str
    next: str
    since_ms: int


def fences_needing_attention(rows: Iterable[Row], clusters: Collection[str]) -> list[FenceAttention]:
    """From rows of `operations` of `REPORT_KINDS`, in order, of these clusters: late writes first."""
    kept = list(rows)
    fences = Fences.of_rows(row for row in kept if row["kind"] in FENCE_KINDS)
    late = _late([row for row in kept if row["kind"] in FINDING_KINDS and row["flow"] is None])
    found = [*late, *_open(fences)]
    return [one for one in found if one.cluster in clusters]


def shut_without_fence(
    topic_rows: Iterable[Row], rows: Iterable[Row], is_of_flow: Callable[[str, str], bool]
) -> list[FenceAttention]:
    """Topics of flows (`is_of_flow`: cluster and name) that take no batch, of which no fence is recorded.

    From rows of `topics` and of `operations` of `FENCE_KINDS`, in order. A fence that was lifted since the settings of
    a topic were recorded is none: recorders read them later.
    """
    kept = list(rows)
    fences = Fences.of_rows(kept)
    lifted = [(Unfenced.of_row(row), row["recorded_at_ms"]) for row in kept if row["kind"] == Unfenced.kind]
    lifted_ms = {(one.cluster, one.topic): at_ms for one, at_ms in lifted}
    shut: dict[str, list[Row]] = {}
    for (cluster, topic), row in sorted({(row["cluster"], row["topic"]): row for row in topic_rows}.items()):
        is_shut = row["event"] != TopicEvent.DELETED and is_fence(
            LIMIT, json.loads(row["configuration"]).get(LIMIT)
        )
        is_lifted = lifted_ms.get((cluster, topic), -1) >= row["recorded_at_ms"]
        if is_shut and not is_lifted and fences.of(cluster, topic) is None and is_of_flow(cluster, topic):
            shut.setdefault(cluster, []).append(row)
    return [_shut_attention(cluster, found) for cluster, found in shut.items()]


def _shut_attention(cluster: str, found: list[Row]) -> FenceAttention:
    topics = tuple(row["topic"] for row in found)
    named = "".join(f" --topic {shlex.quote(topic)}" for topic in topics)
    return FenceAttention(
        cluster,
        topics,
        "unrecorded",
        f"{', '.join(topics)} of {cluster}: {LIMIT} is a fence, and nobody has recorded one: nobody can write there",
        f"mirror-ledger fence {cluster}{named} --how shut --accept producers_stopped --reason WHY records it, "
        f"mirror-ledger unfence {cluster}{named} --reason WHY lifts it then",
        min(row["recorded_at_ms"] for row in found),
    )


def _late(rows: list[Row]) -> list[FenceAttention]:
    """Of each recorder what it raised last and has not cleared."""
    by_writer: dict[str, list[Row]] = {}
    for row in rows:
        by_writer.setdefault(row["writer"], []).append(row)
    found = []
    for own in by_writer.values():
        keys = open_findings(own)
        raised = [
            (FindingRaised.of_row(row), row["recorded_at_ms"])
            for row in in_order(own)
            if row["kind"] == FindingRaised.kind
        ]
        last = {finding.key: (finding, at_ms) for finding, at_ms in raised if finding.key in keys}
        found += [_attention(*one) for key, one in sorted(last.items(), key=str) if key[0] == _LATE]
    return found


_LATE = FindingName.LATE_WRITE


def _attention(finding: FindingRaised, at_ms: int) -> FenceAttention:
    advice = finding.next or EXPLAINED[_LATE].next
    topics = () if finding.topic is None else (finding.topic,)
    return FenceAttention(finding.cluster or "", topics, str(_LATE), finding.message, advice, at_ms)


def _open(fences: Fences) -> list[FenceAttention]:
    """One for the topics of each cluster that are in one state by one operation."""
    groups: dict[tuple[str, str, str], list[ActiveFence]] = {}
    for one in fences.which(lambda fence: fence.is_open):
        groups.setdefault((one.fence.cluster, one.operation_id, one.fence.proof), []).append(one)
    return [_open_attention(found) for _, found in sorted(groups.items())]


def _proving(fence: Fence, topics: Sequence[str]) -> str:
    """The command that makes what is lacking of it, in the way that was chosen; one that was made in none is closed."""
    how = f" --how {fence.how}" if fence.is_made else ""
    if fence.is_made and fence.how == FenceHow.SHUT:
        how += " --accept producers_stopped"
    if fence.hook is not None:
        how += f" --hook {shlex.quote(shlex.join(fence.hook.command))}"
    return f"mirror-ledger fence {fence.cluster}{_named(topics)}{how} --reason WHY"


def _named(topics: Sequence[str]) -> str:
    """Of many topics none is named: without a name all are meant that are fenced, or that flows copy."""
    if len(topics) > _NAMED_AT_MOST:
        return ""
    return "".join(f" --topic {shlex.quote(topic)}" for topic in topics)


def _open_attention(found: list[ActiveFence]) -> FenceAttention:
    first = found[0]
    topics = tuple(one.fence.topic for one in found)
    why = "" if first.fence.override is None else f" ({first.fence.override})"
    said = f"the fence is {first.fence.proof}{why}, asked for {first.made_by}"
    return FenceAttention(
        first.fence.cluster,
        topics,
        first.fence.proof,
        f"{', '.join(topics)} of {first.fence.cluster}: {said}",
        f"{_proving(first.fence, topics)} proves it, mirror-ledger unfence {first.fence.cluster}{_named(topics)}"
        " --reason WHY lifts it",
        min(one.recorded_at_ms for one in found),
    )
