"""Verdict on names: topics whose names differ in `.` and `_` alone are one topic in Kafka's metrics."""

from collections.abc import Collection, Iterator, Sequence

from ledger.doctor.check_results import CheckResult, Unmeasured, counted, named, unknown
from ledger.doctor.checks import Check, Verdict
from ledger.domain.topics.naming import TakenTopics
from ledger.mirror.findings.finding_log import EXPLAINED, FindingName


def metric_name(topic: str) -> str:
    """The name that Kafka's metrics know a topic by, as its own admin does (`Topic.unifyCollisionChars`)."""
    return topic.replace(".", "_")


def conflicts(subject: str, taken: TakenTopics | Unmeasured) -> Iterator[CheckResult]:
    """Why a driver refuses to start, or leaves topics out when they come later."""
    if not isinstance(taken, Unmeasured) and taken.conflicts:
        measured = "; ".join(dict.fromkeys(taken.conflicts.values()))
        advice = EXPLAINED[FindingName.TARGET_NAME_CONFLICT].next
        yield CheckResult(subject, Check.TOPIC_NAMES, Verdict.FAILED, measured, advice)


def topic_names(
    subject: str, wanted: Sequence[str] | Unmeasured, there: Collection[str] | Unmeasured
) -> CheckResult:
    """`wanted`: target topics of the flow; `there`: all topics that the target has."""
    check = Check.TOPIC_NAMES
    for names in (wanted, there):
        if isinstance(names, Unmeasured):
            return unknown(subject, check, names)
    assert not isinstance(wanted, Unmeasured)
    assert not isinstance(there, Unmeasured)
    shared = _shared(wanted, there)
    if not shared:
        return CheckResult(subject, check, Verdict.OK, f"{counted(len(wanted), 'name')} of their own")
    measured = named([f"{' and '.join(names)} are both {metric_name(names[0])}" for names in shared])
    missing = [name for names in shared for name in names if name not in there]
    refused = f"; brokers refuse to create {named(missing)} beside the other" if missing else ""
    advice = f"rename one of them by a rename rule, or exclude it: metrics do not tell them apart{refused}"
    return CheckResult(subject, check, Verdict.WARNING, measured, advice)


def _shared(wanted: Sequence[str], there: Collection[str]) -> list[list[str]]:
    """Topics of one name in metrics, as far as the flow makes one of them."""
    topics: dict[str, set[str]] = {}
    for name in {*wanted, *there}:
        topics.setdefault(metric_name(name), set()).add(name)
    made = {metric_name(name) for name in wanted}
    return [sorted(topics[name]) for name in sorted(made) if len(topics[name]) > 1]
