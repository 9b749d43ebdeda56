"""What doctor says of topics that are not copied as plain bytes, and of those that tools keep at the source."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ledger.doctor.checks import Check, Verdict
from ledger.doctor.results import CheckResult, Unmeasured, named, unknown
from ledger.doctor.topic_settings import Measured, TopicPair
from ledger.words import counted

# Record path --------------------------------------------------------------------------------------


def record_path(subject: str, pairs: Measured, *, is_filtered: bool) -> Iterator[CheckResult]:
    """Which topics are not copied as the batches that they are, and why; `is_filtered`: the flow leaves records out."""
    check = Check.RECORD_PATH
    if isinstance(pairs, Unmeasured):
        yield unknown(subject, check, pairs)
        return
    said = []
    for why, is_so in (
        (
            "the flow has a filter, so batches are opened, and mixed ones written without what it leaves out",
            lambda _pair: is_filtered,
        ),
        (
            "message.timestamp.type is LogAppendTime, so batches are opened for the times of their records",
            _stamps,
        ),
        ("batches from which a cleaner has removed records are written without the holes", _is_cleaned),
        ("batches above the target's max.message.bytes, if any come, are cut", _may_be_cut),
    ):
        topics = [pair.source.name for pair in pairs if is_so(pair)]
        said += [f"{named(topics)}: {why}"] if topics else []
    measured = "; ".join(said) or f"{counted(len(pairs), 'topic')}: copied as the bytes they are"
    yield CheckResult(subject, check, Verdict.OK, measured)


def _stamps(pair: TopicPair) -> bool:
    return pair.source.settings.get("message.timestamp.type") == "LogAppendTime"


def _is_cleaned(pair: TopicPair) -> bool:
    return "compact" in pair.source.settings.get("cleanup.policy", "")


def _may_be_cut(pair: TopicPair) -> bool:
    return pair.source.number("max.message.bytes") > pair.target.number("max.message.bytes")


def tiered(subject: str, pairs: Measured) -> Iterator[CheckResult]:
    """Topics of which the source keeps old segments elsewhere, and the target will not."""
    if isinstance(pairs, Unmeasured):
        return
    setting = "remote.storage.enable"
    topics = [
        pair.target.name
        for pair in pairs
        if pair.source.settings.get(setting) == "true" and pair.target.settings.get(setting) != "true"
    ]
    if topics:
        measured = f"{named(topics)}: {setting} is true at the source and left out: all lies on the target's own disks"
        advice = f"give them room for all that retention keeps, or set {setting} at the target: following leaves it so"
        yield CheckResult(subject, Check.TARGET_SETTINGS, Verdict.WARNING, measured, advice)


# Topics of tools ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolTopics:
    """Topics of a tool by their usual names; what follows where they are copied, and where they are left out."""

    pattern: str
    what: str
    copied: str
    left_out: str


TOOLS = (
    ToolTopics(
        "_schemas",
        "schemas of a registry",
        "mirrored: a registry at the target may read the copy (the NOOP that it writes at each start is ignored), "
        "and may write schemas to it only once it is promoted",
        "left out: copied records name schemas by ids of the source's registry; export them, or include the topic",
    ),
    ToolTopics(
        ".*connect.*-(configs?|offsets?|status)",
        "configurations, offsets and states of Kafka Connect",
        "mirrored: start no workers on the copies before a switchover, and know that offsets of sink connectors are "
        "those of consumer groups",
        "left out: create the connectors again at the target, source connectors with their offsets",
    ),
    ToolTopics(
        ".*-changelog",
        "state of Kafka Streams",
        "mirrored: an application of the same id continues from it where all its topics keep their names",
        "left out: an application that moves rebuilds its state from its inputs",
    ),
    ToolTopics(
        ".*-repartition",
        "what Kafka Streams sends itself",
        "mirrored: the application deletes its records once they are processed, which the copy does not follow; leave "
        "it out where the application is reset at the target",
        "left out: the application writes it again from its inputs",
    ),
)


def tool_topics(
    subject: str, topics: Collection[str] | Unmeasured, selected: Collection[str] | Unmeasured
) -> Iterator[CheckResult]:
    """For the topics of tools at the source whether they are mirrored, and what that means; none: nothing is said."""
    if isinstance(topics, Unmeasured) or isinstance(selected, Unmeasured):
        return
    for tool in TOOLS:
        found = sorted(topic for topic in topics if re.fullmatch(tool.pattern, topic))
        yield from _reported(subject, tool, [topic for topic in found if topic in selected], tool.copied)
        yield from _reported(
            subject, tool, [topic for topic in found if topic not in selected], tool.left_out
        )


def _reported(subject: str, tool: ToolTopics, topics: Sequence[str], meaning: str) -> Iterator[CheckResult]:
    if topics:
        measured = f"{named(topics)} ({tool.what}): {meaning}"
        yield CheckResult(subject, Check.TOOL_TOPICS, Verdict.OK, measured)
