"""What the settings of a target topic mean for its copy: raised by drivers as findings, reported by `doctor` before."""

from collections.abc import Callable, Iterator, Mapping

from ledger.domain.topics.topic_settings import REQUIRED_AT_TARGET, is_fence
from ledger.mirror.findings.finding_log import Finding, FindingName

Settings = Mapping[str, str]

SETTING_FINDINGS = (
    FindingName.MIN_INSYNC_REPLICAS_ONE,
    FindingName.UNCLEAN_LEADER_ELECTION,
    FindingName.RECOMPRESSED,
    FindingName.LOG_APPEND_TIME,
    FindingName.OLD_RECORDS_REFUSED,
    FindingName.FUTURE_RECORDS_REFUSED,
    FindingName.MAX_MESSAGE_BYTES_BELOW_SOURCE,
    FindingName.RETENTION_BELOW_SOURCE,
)
"""All that `concerns` may find."""

_UNLIMITED = -1
_LIMIT = "max.message.bytes"


def target_findings(topic: str, *, source: Settings, target: Settings, replicas: int) -> list[Finding]:
    """What a driver raises about a target topic."""
    return [
        Finding(name=name, topic=topic, message=f"{topic}: {message}")
        for name, message in concerns(source=source, target=target, replicas=replicas).items()
    ]


def concerns(*, source: Settings, target: Settings, replicas: int) -> dict[FindingName, str]:
    """What is wrong with a target topic, with the values, from the effective settings of a source and a target topic.

    What is not reported is not judged.
    """
    found = {
        FindingName.MIN_INSYNC_REPLICAS_ONE: _one_may_acknowledge(target, replicas),
        FindingName.UNCLEAN_LEADER_ELECTION: _is_not(target, "unclean.leader.election.enable", "false"),
        FindingName.RECOMPRESSED: _is_not_required(target, "compression.type"),
        FindingName.LOG_APPEND_TIME: _is_not_required(target, "message.timestamp.type"),
        FindingName.OLD_RECORDS_REFUSED: _is_not_required(target, "message.timestamp.before.max.ms"),
        FindingName.FUTURE_RECORDS_REFUSED: _is_not_required(target, "message.timestamp.after.max.ms"),
        FindingName.MAX_MESSAGE_BYTES_BELOW_SOURCE: _smaller_batches(source, target),
        FindingName.RETENTION_BELOW_SOURCE: "; ".join(_shorter_retention(source, target)) or None,
    }
    return {name: message for name, message in found.items() if message is not None}


def _one_may_acknowledge(target: Settings, replicas: int) -> str | None:
    if replicas < 2 or target.get("min.insync.replicas") != "1":
        return None
    return f"min.insync.replicas is 1 with {replicas} replicas"


def _is_not_required(target: Settings, name: str) -> str | None:
    return _is_not(target, name, REQUIRED_AT_TARGET[name])


def _is_not(target: Settings, name: str, wanted: str) -> str | None:
    found = target.get(name, wanted)
    return None if found == wanted else f"{name} is {found}"


def _smaller_batches(source: Settings, target: Settings) -> str | None:
    if is_fence(_LIMIT, source.get(_LIMIT)):
        return None
    return _below(source, target, _LIMIT, int)


def _shorter_retention(source: Settings, target: Settings) -> Iterator[str]:
    """Only where the target deletes by age or size at all."""
    if "delete" in target.get("cleanup.policy", "delete"):
        for name in ("retention.ms", "retention.bytes"):
            shorter = _below(source, target, name, _bounded)
            if shorter is not None:
                yield shorter


def _below(source: Settings, target: Settings, name: str, size: Callable[[str], float]) -> str | None:
    if name not in source or name not in target or size(target[name]) >= size(source[name]):
        return None
    return f"{name} is {target[name]}, at the source {source[name]}"


def _bounded(value: str) -> float:
    return float("inf") if int(value) == _UNLIMITED else int(value)
