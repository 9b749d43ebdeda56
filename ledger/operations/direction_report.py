"""Whether a flow stands as the directions that hold say: what of its stops is no alarm, and what is to be done.

A partition that stopped because the other direction holds is as it should be, as long as that direction holds by the
rows of now. Of a promoted topic three more things have to be so: something keeps applications from where they wrote
before, a driver at work does not copy there any more, and the way back is copied, unless somebody said that it is not
to be.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ledger.domain.operations.directions import DIRECTION_ROWS, Directions, HeldBack
from ledger.domain.operations.promotion.standing import (
    STANDING_KINDS,
    FenceStanding,
    StandingPromotion,
    StandingRows,
)
from ledger.domain.words.count_words import counted, some_of
from ledger.operations.driver_report import DriverReport, DriverState

Row = Mapping[str, Any]
Place = tuple[str, str, int]
"""Topic, topic id and partition."""
DIRECTION_REPORT_KINDS = tuple(dict.fromkeys((*STANDING_KINDS, *DIRECTION_ROWS)))
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

    `opposite` None: it has none. `begins_at`: whether a way back can begin at the cut of an operation.
    """

    flow: str
    source: str
    target: str
    is_mirrored: Callable[[str], bool]
    opposite: OppositeFlow | None
    begins_at: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionReport:
    """Topics of the source by what holds them back: the target is `promoted`, or the flow `waits` for the other one.

    `way_back`: None, nothing is promoted. `extras_at_most`: records that the source has and the flow has not copied,
    None: unknown of some partition. `gave_way`: all that the flow copies is promoted: it needs no driver. `stands_by`:
    the opposite flow has run, and this one never: it is not to before the direction changes.
    `attention`: what is not as the directions say, with what to do; `remarks`: what is, and is worth saying.
    """

    promoted: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    way_back: WayBack | None = None
    extras_at_most: int | None = 0
    gave_way: bool = False
    stands_by: bool = False
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
    standing = StandingRows.of_rows(rows)
    promoted = {
        topic: found
        for topic, why in held.items()
        if why is HeldBack.PROMOTED
        and (found := _promotion(way, standing, source_topic=topic, topic=names[topic])) is not None
    }
    of_promoted = [row for row in known if row["source_topic"] in promoted]
    back = _way_back(way, promoted.values()) if promoted else None
    extras = _extras(of_promoted, _on_their_way(way, back))
    waits = tuple(sorted(topic for topic, why in held.items() if why is HeldBack.OPPOSITE_HOLDS))
    return DirectionReport(
        promoted=tuple(sorted(promoted)),
        waits=waits,
        way_back=back,
        extras_at_most=extras,
        gave_way=bool(promoted) and promoted.keys() == held.keys(),
        stands_by=_stands_by(way, driver),
        attention=(
            *_without_fence(way, promoted, of_promoted),
            *([] if is_paused else _not_stopped(way, driver, of_promoted)),
            *_way_back_lacks(way, back, promoted.values()),
        ),
        remarks=(
            *_promoted_words(way, back, of_promoted),
            *_extras_words(way, extras),
            *_waits_words(way, waits),
        ),
    )


def _held(way: OneWay, directions: Directions, topic: str) -> HeldBack | None:
    opposite = None if way.opposite is None else way.opposite.name
    return directions.held_back(way.flow, opposite, source=way.source, target=way.target, topic=topic)


def _target_topic(row: Row) -> str:
    """A topic that the flow never began has the same name there: others are never promoted."""
    return str(row["target_topic"] or row["source_topic"])


def _promotion(
    way: OneWay, standing: StandingRows, *, source_topic: str, topic: str
) -> StandingPromotion | None:
    return standing.promotion(source=way.source, target=way.target, source_topic=source_topic, topic=topic)


# What has to be so ------------------------------------------------------------------------------


def _without_fence(
    way: OneWay, promoted: Mapping[str, StandingPromotion], partitions: Iterable[Row]
) -> list[str]:
    """Of topics that the flow has copied: others were never an application's at the source while it mirrored."""
    copied = {row["source_topic"] for row in partitions if row["source_end"] is not None}
    open_to_all = sorted(
        topic for topic in copied if topic in promoted and promoted[topic].fence is FenceStanding.NONE
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


def _way_back(way: OneWay, promoted: Collection[StandingPromotion]) -> WayBack:
    if all(one.no_reverse for one in promoted):
        return WayBack.NOT_WANTED
    if way.opposite is None:
        return WayBack.NO_FLOW
    if not way.opposite.enabled:
        return WayBack.DISABLED
    return WayBack.AT_WORK if way.opposite.driver().state in _AT_WORK else WayBack.NOT_AT_WORK


def _way_back_lacks(way: OneWay, back: WayBack | None, promoted: Collection[StandingPromotion]) -> list[str]:
    said = f"what is written at {way.target} is not mirrored back to {way.source}"
    no_reverse = f"mirror-ledger promote {way.target} --over {way.source} --no-reverse --reason WHY"
    else_said = f"or {no_reverse} says that it need not be"
    if back is WayBack.NO_FLOW:
        return [f"{said}: flow {way.flow} has no opposite; configure one, {else_said}"]
    if back is not WayBack.NOT_AT_WORK:
        return []
    assert way.opposite is not None, "what is not at work is a flow"
    last = max(promoted, key=lambda one: one.promoted_at_ms)
    name, driver = way.opposite.name, way.opposite.driver()
    if driver.claimed_at_ms is not None and driver.claimed_at_ms > last.promoted_at_ms:
        advice = f"mirror-ledger run {name}"
    elif way.begins_at(last.operation_id):
        advice = f"mirror-ledger run {name} --from-cut {last.operation_id}"
    else:
        advice = f'take a cut and run {name} from it (RUNBOOK.md, "The source comes back")'
    return [f"{said}: the driver of {name} is not at work ({driver.state}); {advice}, {else_said}"]


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


def _stands_by(way: OneWay, driver: DriverReport) -> bool:
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
    """Lag that nobody will make up while the target is promoted; what other flows wrote there is not in it."""
    copied = [row for row in partitions if row["source_end"] is not None]
    if any(row["lag_records"] is None for row in copied):
        return None
    return sum(max(int(row["lag_records"]) - on_their_way(row), 0) for row in copied)


def _extras_words(way: OneWay, extras: int | None) -> list[str]:
    if extras == 0:
        return []
    many = "an unknown number of records" if extras is None else f"at most {counted(extras, 'record')}"
    return [
        f"{many} at {way.source} alone: mirror-ledger query one_sided_records "
        f"--param from_cluster={way.target} --param to_cluster={way.source}"
    ]


def _waits_words(way: OneWay, waits: Sequence[str]) -> list[str]:
    if not waits or way.opposite is None:
        return []
    return [f"{counted(len(waits), 'topic')} left to {way.opposite.name}, whose direction holds"]
