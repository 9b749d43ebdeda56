"""What of fences needs attention: those that are not proved, and records that were written behind one."""

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ledger.domain.fences.receipts import FENCE_KINDS, Fence, FenceHow, Fences, StandingFence
from ledger.domain.operations.content import Row
from ledger.domain.operations.finding_events import FINDING_KINDS, FindingRaised, open_findings
from ledger.domain.operations.order import in_order
from ledger.mirror.findings.finding_log import EXPLAINED, FindingName

_NAMED_AT_MOST = 3
REPORT_KINDS = (*FENCE_KINDS, *FINDING_KINDS)


@dataclass(frozen=True, slots=True)
class FenceAttention:
    """A fence of topics of a cluster that is open, or a partition that was written to behind one."""

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
    groups: dict[tuple[str, str, str], list[StandingFence]] = {}
    for one in fences.which(lambda fence: fence.is_open):
        groups.setdefault((one.fence.cluster, one.operation_id, one.fence.proof), []).append(one)
    return [_open_attention(found) for _, found in sorted(groups.items())]


def _proving(fence: Fence, topics: Sequence[str]) -> str:
    """The command that makes what is lacking of it, in the way that was chosen; one that was made in none is closed."""
    how = f" --how {fence.how}" if fence.is_made else ""
    if fence.is_made and fence.how == FenceHow.SHUT:
        how += " --producers-stopped"
    if fence.hook is not None:
        how += f" --hook {shlex.quote(shlex.join(fence.hook.command))}"
    return f"mirror-ledger fence {fence.cluster}{_named(topics)}{how} --reason WHY"


def _named(topics: Sequence[str]) -> str:
    """Of many topics none is named: without a name all are meant that are fenced, or that flows copy."""
    if len(topics) > _NAMED_AT_MOST:
        return ""
    return "".join(f" --topic {shlex.quote(topic)}" for topic in topics)


def _open_attention(found: list[StandingFence]) -> FenceAttention:
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
