"""What the settings of a target topic do to its copy: one rule for the driver's findings and the doctor's verdicts."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

from ledger.domain.topic_settings import REQUIRED_AT_TARGET, is_fence

Settings = Mapping[str, str]

_UNLIMITED = -1
_LIMIT = "max.message.bytes"


class Concern(StrEnum):
    """What can be wrong with a target topic that exists."""

    MIN_INSYNC_REPLICAS_ONE = "min_insync_replicas_one"
    UNCLEAN_LEADER_ELECTION = "unclean_leader_election"
    RECOMPRESSED = "recompressed"
    LOG_APPEND_TIME = "log_append_time"
    OLD_RECORDS_REFUSED = "old_records_refused"
    FUTURE_RECORDS_REFUSED = "future_records_refused"
    MAX_MESSAGE_BYTES_BELOW_SOURCE = "max_message_bytes_below_source"
    RETENTION_BELOW_SOURCE = "retention_below_source"


def concerns(*, source: Settings, target: Settings, replicas: int) -> dict[Concern, str]:
    """Each with the settings that it is about and their values; what is not told is not judged.

    `source` and `target`: the settings that count, defaults included. `replicas`: of the target topic.
    """
    found = {
        Concern.MIN_INSYNC_REPLICAS_ONE: _one_may_acknowledge(target, replicas),
        Concern.UNCLEAN_LEADER_ELECTION: _is_not(target, "unclean.leader.election.enable", "false"),
        Concern.RECOMPRESSED: _is_not_required(target, "compression.type"),
        Concern.LOG_APPEND_TIME: _is_not_required(target, "message.timestamp.type"),
        Concern.OLD_RECORDS_REFUSED: _is_not_required(target, "message.timestamp.before.max.ms"),
        Concern.FUTURE_RECORDS_REFUSED: _is_not_required(target, "message.timestamp.after.max.ms"),
        Concern.MAX_MESSAGE_BYTES_BELOW_SOURCE: _smaller_batches(source, target),
        Concern.RETENTION_BELOW_SOURCE: "; ".join(_shorter_retention(source, target)) or None,
    }
    return {concern: words for concern, words in found.items() if words is not None}


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
