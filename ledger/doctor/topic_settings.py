"""Verdicts on topics: does the target take what the source takes, and keep it as it is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ledger.doctor.checks import Check, Verdict
from ledger.doctor.measurements import Settings
from ledger.doctor.results import CheckResult, Unmeasured, named, size, unknown
from ledger.facts.findings import EXPLAINED, FindingName
from ledger.mirror.targets import concerns
from ledger.topics.following import is_fence
from ledger.words import counted

BATCH_OVERHEAD_BYTES = 12
"""Kafka's own default of `max.message.bytes` is that much above `replica.fetch.max.bytes`."""
REQUEST_OVERHEAD_BYTES = 1024


@dataclass(frozen=True, slots=True)
class SideOfPair:
    """A topic on one side, with the settings that count. A target topic that is absent is as it would be made."""

    name: str
    partitions: int
    replication_factor: int
    settings: Settings

    def number(self, setting: str) -> int:
        return int(self.settings[setting])


@dataclass(frozen=True, slots=True)
class TopicPair:
    """A selected source topic and its target topic; `exists` False: the flow will create it."""

    source: SideOfPair
    target: SideOfPair
    exists: bool

    @property
    def concerns(self) -> Mapping[FindingName, str]:
        """What a driver of the flow would raise about the target topic."""
        return concerns(
            source=self.source.settings,
            target=self.target.settings,
            replicas=self.target.replication_factor,
        )


Measured = tuple[TopicPair, ...] | Unmeasured


def batch_size(
    subject: str, pairs: Measured, brokers: Mapping[int, Settings] | Unmeasured
) -> Iterator[CheckResult]:
    """Whether the largest batch that a source topic takes passes all limits on its way."""
    check = Check.BATCH_SIZE
    if isinstance(pairs, Unmeasured):
        yield unknown(subject, check, pairs)
        return
    found = [*_shut(subject, pairs), *_topic_limits(subject, pairs), *_broker_limits(subject, pairs, brokers)]
    largest = max(map(_largest_batch, pairs), default=0)
    yield from found or [CheckResult(subject, check, Verdict.OK, f"batches of up to {size(largest)} pass")]


def _largest_batch(pair: TopicPair) -> int:
    """A limit that is a fence says nothing about the batches that the topic holds."""
    limit = pair.source.settings["max.message.bytes"]
    return 0 if is_fence("max.message.bytes", limit) else int(limit)


def _shut(subject: str, pairs: Sequence[TopicPair]) -> Iterator[CheckResult]:
    shut = [
        pair.source.name
        for pair in pairs
        if is_fence("max.message.bytes", pair.source.settings["max.message.bytes"])
    ]
    if shut:
        measured = (
            f"{named(shut)} of the source: max.message.bytes is a fence, applications cannot write there"
        )
        advice = (
            "where that is not meant: mirror-ledger unfence CLUSTER --topic TOPIC --reason REASON; of a fence that "
            "nobody has recorded first: mirror-ledger fence CLUSTER --topic TOPIC --how shut "
            "--accept producers_stopped --reason REASON"
        )
        yield CheckResult(subject, Check.BATCH_SIZE, Verdict.WARNING, measured, advice)


def _topic_limits(subject: str, pairs: Sequence[TopicPair]) -> Iterator[CheckResult]:
    smaller = [pair for pair in pairs if FindingName.MAX_MESSAGE_BYTES_BELOW_SOURCE in pair.concerns]
    if smaller:
        worst = max(smaller, key=lambda pair: _largest_batch(pair) - pair.target.number("max.message.bytes"))
        measured = (
            f"{named([pair.target.name for pair in smaller])}: {worst.source.name} takes batches of up to "
            f"{_largest_batch(worst):,} B, {worst.target.name} of up to {worst.target.number('max.message.bytes'):,} B"
        )
        advice = (
            f"raise max.message.bytes of the target topics to {_largest_batch(worst)}, and following leaves it so. "
            "Else batches above the limit, if any come, are copied in smaller ones; a record above it stops its copy"
        )
        yield CheckResult(subject, Check.BATCH_SIZE, Verdict.WARNING, measured, advice)


def _broker_limits(
    subject: str, pairs: Sequence[TopicPair], brokers: Mapping[int, Settings] | Unmeasured
) -> Iterator[CheckResult]:
    check = Check.BATCH_SIZE
    if isinstance(brokers, Unmeasured):
        yield unknown(subject, check, brokers)
        return
    largest = max(map(_largest_batch, pairs), default=0)
    replicated = any(pair.target.replication_factor > 1 for pair in pairs)
    for node_id, settings in sorted(brokers.items()):
        requests, replicas = (
            int(settings[name]) for name in ("socket.request.max.bytes", "replica.fetch.max.bytes")
        )
        below = f"of target broker {node_id} is below the {largest:,} B that a batch may have"
        if requests < largest + REQUEST_OVERHEAD_BYTES:
            measured = f"socket.request.max.bytes ({requests:,}) {below}"
            yield CheckResult(subject, check, Verdict.FAILED, measured, "raise socket.request.max.bytes")
        if replicated and replicas + BATCH_OVERHEAD_BYTES < largest:
            measured = f"replica.fetch.max.bytes ({replicas:,}) {below}"
            yield CheckResult(subject, check, Verdict.WARNING, measured, "raise replica.fetch.max.bytes")


# Replication -----------------------------------------------------------------------------------


def replication(subject: str, pairs: Measured, brokers: int | Unmeasured) -> Iterator[CheckResult]:
    """Whether acknowledged records survive a broker."""
    check = Check.TARGET_REPLICATION
    for value in (pairs, brokers):
        if isinstance(value, Unmeasured):
            yield unknown(subject, check, value)
            return
    assert not isinstance(pairs, Unmeasured)
    assert not isinstance(brokers, Unmeasured)
    rules = _replication_rules(brokers)
    found = [
        *_weaknesses(subject, check, rules, pairs),
        *_raised(subject, check, _RAISED_OF_REPLICATION, pairs),
    ]
    measured = f"{counted(len(pairs), 'topic')}: replicated, no unclean elections"
    yield from found or [CheckResult(subject, check, Verdict.OK, measured)]


Rule = tuple[Verdict, Callable[[TopicPair], bool], str, str]
"""A verdict, when a pair earns it, what to say of those topics, and what to do."""


_RAISED_OF_REPLICATION = (FindingName.MIN_INSYNC_REPLICAS_ONE, FindingName.UNCLEAN_LEADER_ELECTION)
_RAISED_OF_SETTINGS = (
    FindingName.RECOMPRESSED,
    FindingName.LOG_APPEND_TIME,
    FindingName.OLD_RECORDS_REFUSED,
    FindingName.FUTURE_RECORDS_REFUSED,
    FindingName.RETENTION_BELOW_SOURCE,
)


def _replication_rules(brokers: int) -> tuple[Rule, ...]:
    return (
        (
            Verdict.FAILED,
            lambda pair: pair.target.number("min.insync.replicas") > pair.target.replication_factor,
            "min.insync.replicas is above the replicas: every write is refused",
            "lower min.insync.replicas of the target topic (or of its brokers), or add replicas",
        ),
        (
            Verdict.FAILED,
            lambda pair: not pair.exists and pair.target.replication_factor > brokers,
            f"asks for more replicas than the {counted(brokers, 'broker')} of the target",
            "lower replication_factor of the flow, or add brokers",
        ),
        (
            Verdict.WARNING,
            lambda pair: pair.target.replication_factor == 1,
            "one replica: a lost broker takes copied records along",
            "raise the replication factor",
        ),
        (
            Verdict.WARNING,
            lambda pair: 1 < pair.target.replication_factor < pair.source.replication_factor,
            "fewer replicas than at the source",
            "raise the replication factor",
        ),
    )


def partitions(subject: str, pairs: Measured) -> Iterator[CheckResult]:
    """Whether source and target partitions match."""
    check = Check.TARGET_PARTITIONS
    if isinstance(pairs, Unmeasured):
        yield unknown(subject, check, pairs)
        return
    rules: tuple[Rule, ...] = (
        (
            Verdict.WARNING,
            lambda pair: pair.target.partitions > pair.source.partitions,
            "more partitions than the source: the surplus stays empty, keys spread differently",
            "applications that move to the target must not rely on where a key lies",
        ),
        (
            Verdict.WARNING,
            lambda pair: pair.target.partitions < pair.source.partitions,
            "fewer partitions than the source",
            "run the flow: it adds them",
        ),
    )
    found = list(_weaknesses(subject, check, rules, pairs))
    yield from found or [
        CheckResult(subject, check, Verdict.OK, f"{counted(len(pairs), 'topic')}: as at the source")
    ]


def settings(subject: str, pairs: Measured, refused: Mapping[str, str] | Unmeasured) -> Iterator[CheckResult]:
    """Whether target topics keep records as they are. Those that do not exist yet are made so.

    `refused`: of those why the target does not take their settings.
    """
    check = Check.TARGET_SETTINGS
    if isinstance(pairs, Unmeasured):
        yield unknown(subject, check, pairs)
        return
    existing = [pair for pair in pairs if pair.exists]
    found = [
        *_raised(subject, check, _RAISED_OF_SETTINGS, existing),
        *_refused(subject, check, refused),
    ]
    measured = f"{counted(len(existing), 'existing topic')}: records are kept as they are"
    yield from found or [CheckResult(subject, check, Verdict.OK, measured)]


def _refused(subject: str, check: Check, refused: Mapping[str, str] | Unmeasured) -> Iterator[CheckResult]:
    if isinstance(refused, Unmeasured):
        yield unknown(subject, check, refused)
        return
    by_reason: dict[str, list[str]] = {}
    for topic, reason in refused.items():
        by_reason.setdefault(reason, []).append(topic)
    for reason, topics in by_reason.items():
        measured = f"{named(topics)}: the target does not take a setting: {reason}"
        advice = "the flow makes the topics without it; configuration_exclude leaves it out everywhere"
        yield CheckResult(subject, check, Verdict.WARNING, measured, advice)


def _weaknesses(
    subject: str, check: Check, rules: Sequence[Rule], pairs: Sequence[TopicPair]
) -> Iterator[CheckResult]:
    """One result for each rule that some topics break."""
    for verdict, applies, what, advice in rules:
        topics = [pair.target.name for pair in pairs if applies(pair)]
        if topics:
            yield CheckResult(subject, check, verdict, f"{named(topics)}: {what}", advice)


def _raised(
    subject: str, check: Check, names: Sequence[FindingName], pairs: Sequence[TopicPair]
) -> Iterator[CheckResult]:
    """What a driver of the flow would raise, by the rules that it goes by: one for each name, with an example."""
    for name in names:
        found = {pair.target.name: pair.concerns[name] for pair in pairs if name in pair.concerns}
        if found:
            explained, example = EXPLAINED[name], next(iter(found.values()))
            measured = f"{named(list(found))}: {explained.meaning} ({example})"
            yield CheckResult(subject, check, Verdict.WARNING, measured, explained.next)
