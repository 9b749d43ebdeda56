"""What there is to say of topics that a flow mirrors, from what both clusters answer."""

from collections.abc import Iterator, Mapping

from ledger.mirror.findings.finding_log import Finding, FindingName
from ledger.mirror.topics.target_settings import target_findings
from ledger.ports.clusters import SettingsAnswer, TopicDescription


def conflict_findings(conflicts: Mapping[str, str]) -> list[Finding]:
    return [
        Finding(name=FindingName.TARGET_NAME_CONFLICT, topic=topic, message=f"{reason}; it is not copied")
        for topic, reason in conflicts.items()
    ]


def new_behind_promotion(topics: Mapping[str, str], side: str) -> list[Finding]:
    """`topics`: by name why the target is promoted."""
    return [
        Finding(
            name=FindingName.NEW_BEHIND_PROMOTION,
            topic=topic,
            message=f"{topic} of {side} is not copied: {why}",
        )
        for topic, why in topics.items()
    ]


def unread_findings(settings: SettingsAnswer, side: str) -> list[Finding]:
    return [
        Finding(name=FindingName.SETTINGS_NOT_READ, topic=topic, message=f"{topic} at the {side}: {reason}")
        for topic, reason in settings.refused.items()
    ]


def partition_findings(source: TopicDescription, target: TopicDescription) -> Iterator[Finding]:
    if target.partitions > source.partitions:
        message = (
            f"{target.name} has {target.partitions} partitions, its source {source.partitions}: "
            "the surplus gets nothing"
        )
        yield Finding(name=FindingName.MORE_PARTITIONS, topic=target.name, message=message)


def settings_findings(
    source: TopicDescription, at_source: SettingsAnswer, target: TopicDescription, at_target: SettingsAnswer
) -> list[Finding]:
    settings, compared = at_target.read.get(target.name), at_source.read.get(source.name)
    if settings is None:
        return []
    return target_findings(
        target.name,
        source=compared.effective if compared else {},
        target=settings.effective,
        replicas=target.replication_factor,
    )
