"""Whether fences stand now, at the ends that they were proved at.

A proof is about a moment. A request that was authorized before the rules came, and still waited in the leader (for the
verification of its transaction, for the log's lock), is appended behind it; people lift fences, and allow others. So
whatever rests on a fence asks this again right before it acts: an apply before every step until applications start.
"""

from collections.abc import Mapping, Sequence

from ledger.domain.facts import TopicPartition
from ledger.domain.fences.proof import LeaderReading
from ledger.domain.fences.receipts import Fence, FencedPartition, FenceHow
from ledger.errors import PreconditionError
from ledger.operations.fencing.measures import measure_of, places_of
from ledger.operations.fencing.parts import AskedFence, FenceParts
from ledger.ports.clusters import TopicDescription
from ledger.ports.fencing import Place, first_data

_READINGS = 5
_POLL_S = 0.2


def doubts(fences: Sequence[Fence], parts: FenceParts) -> tuple[str, ...]:
    """Why these fences of a cluster, as recorded, do not stand now, each in words; none: all do.

    Every leader is asked, all at once, and nothing is changed: the topics are those that were fenced, nobody is allowed
    to write by now, leaders have the rules or refuse, and nothing but markers and copies lies behind the ends of the
    proof, in no leader's log. A fence that is open proves nothing, and is left out. Raises `ClusterUnavailableError`.
    """
    kept = [one for one in fences if not one.is_open]
    there = parts.reader.topics() if kept else {}
    others = [words for one in kept if (words := _is_another(one, there.get(one.topic)))]
    same = [one for one in kept if not _is_another(one, there.get(one.topic))]
    found = list(others)
    for how in FenceHow:
        found += _not_refused([one for one in same if one.how == how], there, parts)
    return (*found, *_written(same, parts))


def _is_another(fence: Fence, topic: TopicDescription | None) -> str | None:
    if topic is None:
        return f"{fence.topic} of {fence.cluster} is not there any more"
    if topic.topic_id != fence.topic_id:
        return f"{fence.topic} of {fence.cluster} was created again since it was fenced"
    if topic.partitions != len(fence.partitions):
        were = len(fence.partitions)
        return f"{fence.topic} of {fence.cluster} has {topic.partitions} partitions, and had {were} when it was fenced"
    return None


def _not_refused(
    fences: Sequence[Fence], there: Mapping[str, TopicDescription], parts: FenceParts
) -> list[str]:
    if not fences or fences[0].how == FenceHow.HOOK:
        return []
    topics = {one.topic: there[one.topic] for one in fences}
    asked = AskedFence(
        cluster=fences[0].cluster,
        topics=tuple(topics),
        how=FenceHow(fences[0].how),
        reason="",
        confirmed_super_users=tuple(sorted({user for one in fences for user in one.confirmed})),
        producers_stopped=True,
    )
    measure = measure_of(asked, parts)
    try:
        begun = measure.begun(topics)
    except PreconditionError as error:
        return [str(error)]
    wanted = {one.topic: set(one.denied) for one in begun}
    by_now = [
        f"{', '.join(who)} may write to {one.topic} of {one.cluster} by now"
        for one in fences
        if (who := sorted(wanted[one.topic] - set(one.denied)))
    ]
    if by_now:
        return by_now
    lacking = measure.shown(begun, places_of(topics)).lacking
    return [] if lacking is None else [f"{asked.cluster} is not fenced any more: {lacking}"]


def _written(fences: Sequence[Fence], parts: FenceParts) -> list[str]:
    ends = {(one.topic, of.partition): (one, of) for one in fences for of in one.partitions}
    readings = _calm_readings(sorted(ends), parts)
    return [
        words
        for place, (fence, known) in sorted(ends.items())
        if (words := _behind_the_end(fence, known, readings.get(place), parts))
    ]


def _calm_readings(places: Sequence[Place], parts: FenceParts) -> Mapping[Place, LeaderReading]:
    """Copies that a mirror writes just now lie behind a high watermark for a moment: these are read again."""
    readings = parts.reader.readings(places) if places else {}
    for _ in range(_READINGS):
        moving = [place for place in places if place not in readings or not _is_calm(readings[place])]
        if not moving:
            break
        parts.sleep(_POLL_S)
        readings = {**readings, **parts.reader.readings(moving)}
    return readings


def _is_calm(reading: LeaderReading) -> bool:
    return not reading.behind and reading.last_stable >= reading.high_watermark


def _behind_the_end(
    fence: Fence, known: FencedPartition, reading: LeaderReading | None, parts: FenceParts
) -> str | None:
    where = f"{fence.topic} partition {known.partition} of {fence.cluster}"
    if reading is None:
        return f"{where} has no leader"
    if reading.high_watermark < known.end:
        return f"{where} ends at {reading.high_watermark}, and ended at {known.end} when it was fenced"
    if reading.log_start > known.end:
        return f"{where}: what was written behind offset {known.end}, its end when it was fenced, is deleted"
    at = TopicPartition(fence.topic, fence.topic_id or "", known.partition)
    if first := first_data(parts.reader, at, known.end, reading.high_watermark, mirrors=parts.mirrors):
        return f"{where}: a record was written at offset {first.base_offset} behind the fence, whose end is {known.end}"
    if reading.behind:
        return (
            f"{where}: its leader has records from offset {reading.high_watermark} on that no reader sees yet"
        )
    if reading.last_stable < reading.high_watermark:
        return f"{where}: a transaction is open from offset {reading.last_stable}"
    return None
