"""Verdict on who may write to target topics beside the mirror, before they are promoted."""

from collections.abc import Sequence

from ledger.doctor.check_results import CheckResult, Unmeasured, counted, named, unknown
from ledger.doctor.checks import Check, Verdict
from ledger.domain.fences.closing import may_write, writers
from ledger.domain.topics.topic_acls import TopicAcl

_CHECK = Check.TARGET_WRITERS
_ADVICE = (
    "records of others stop the flow (foreign_write): allow it when topics are promoted, deny it until then"
)


def target_writers(
    subject: str, topics: Sequence[str], acls: frozenset[TopicAcl] | Unmeasured, mirror: str | None
) -> CheckResult:
    """`topics`: the flow's own at its target, none of them promoted; `mirror`: its principal, None: not known."""
    if isinstance(acls, Unmeasured):
        return unknown(subject, _CHECK, acls)
    who = {topic: _others(topic, acls, mirror) for topic in topics}
    open_topics = sorted(topic for topic, others in who.items() if others)
    if not open_topics:
        measured = f"{counted(len(topics), 'topic')}: nobody else"
        return CheckResult(subject, _CHECK, Verdict.OK, measured)
    if mirror is None:
        reason = "which principal is the mirror's is not configured, so who else may write is not known"
        return unknown(subject, _CHECK, Unmeasured(reason, advice="set mirror_principal of the cluster"))
    principals = sorted(frozenset().union(*who.values()))
    measured = f"{named(principals)} may write to {named(open_topics)}"
    return CheckResult(subject, _CHECK, Verdict.WARNING, measured, _ADVICE)


def no_authorizer(subject: str) -> CheckResult:
    """Everybody may."""
    measured = "the cluster has no authorizer: everybody may write"
    advice = "an authorizer keeps applications away until the topics are promoted"
    return CheckResult(subject, _CHECK, Verdict.WARNING, measured, advice)


def _others(topic: str, acls: frozenset[TopicAcl], mirror: str | None) -> frozenset[str]:
    allowed = writers(topic, acls) - {mirror}
    return frozenset(principal for principal in allowed if may_write(principal, topic, acls))
