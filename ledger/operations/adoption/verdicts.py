"""What a comparison means for the operator: may the partition be taken over, and how sure is its map?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ledger.domain.facts import PartitionPair
from ledger.operations.adoption.pairing_result import PairingResult, Ranges, RefusedPartitionError
from ledger.ports.clusters import PartitionEnds

_SHOWN_RANGES = 5


class Verdict(StrEnum):
    """How a partition came out."""

    EXACT = "exact"  # every source record of the map has its copy, or a cause why not
    BOUNDED = "bounded"  # taken over; some translations land before the true copy, or records are missing
    EMPTY = "empty"  # the target holds nothing: the flow begins there as with any new partition
    REFUSED = "refused"  # nothing of it was recorded


@dataclass(frozen=True, slots=True)
class Consent:
    """What the operator accepts. `missing`: source records that the target lacks; `foreign`: others' at its end."""

    missing: bool
    foreign: bool


@dataclass(frozen=True, slots=True)
class PartitionAdoption:
    """One partition's line of the result."""

    pair: PartitionPair
    verdict: Verdict
    findings: PairingResult | None
    goes_on_at: tuple[int, int] | None
    remarks: tuple[str, ...]

    @classmethod
    def refused(cls, pair: PartitionPair, reason: str) -> "PartitionAdoption":
        return cls(pair, Verdict.REFUSED, None, None, (reason,))

    @classmethod
    def empty(cls, pair: PartitionPair) -> "PartitionAdoption":
        return cls(pair, Verdict.EMPTY, None, None, ("the target holds no record",))

    def remarked(self, remarks: Sequence[str]) -> "PartitionAdoption":
        """With more remarks; a refusal has one reason."""
        if self.verdict is Verdict.REFUSED:
            return self
        return replace(self, remarks=(*self.remarks, *remarks))


def check_consent(findings: PairingResult, consent: Consent, source: PartitionEnds) -> None:
    """Raises `RefusedPartitionError` for what the operator has not accepted."""
    if findings.missing and not consent.missing:
        raise RefusedPartitionError(
            f"the target lacks {findings.missing.records:,} records of source offsets {shown(findings.missing)} "
            "between others that it has, and nothing proves that this is harmless; nothing of the partition was "
            "recorded (--accept-missing records them as lost)"
        )
    if findings.foreign and not consent.foreign:
        unstable = source.high_watermark - source.last_stable
        reason = f"; {unstable:,} source offsets belong to open transactions" if unstable else ""
        raise RefusedPartitionError(
            f"target offsets {shown(findings.foreign)} behind the last pair hold records that the source does "
            f"not{reason}; nothing of the partition was recorded (--accept-foreign continues after them)"
        )


def judged(
    pair: PartitionPair, findings: PairingResult, *, target: PartitionEnds, goes_on_at: tuple[int, int]
) -> PartitionAdoption:
    """The verdict of a partition that may be taken over."""
    is_bounded = findings.missing or findings.ambiguous or (findings.before and target.log_start > 0)
    verdict = Verdict.BOUNDED if is_bounded else Verdict.EXACT
    return PartitionAdoption(pair, verdict, findings, goes_on_at, tuple(_remarks(findings, target)))


def _remarks(findings: PairingResult, target: PartitionEnds) -> Iterator[str]:
    if findings.before:
        expired = ", its copies may have expired" if target.log_start > 0 else ""
        yield f"the map begins after source offsets {shown(findings.before)}{expired}"
    if findings.missing:
        yield f"lost: source offsets {shown(findings.missing)}"
    if findings.ambiguous:
        yield f"ambiguous (equal records): source offsets {shown(findings.ambiguous)}"
    if findings.uncommitted:
        yield f"copies of aborted or mirrored records: target offsets {shown(findings.uncommitted)}"
    if findings.foreign:
        yield f"records of others at the end: target offsets {shown(findings.foreign)}"
    if findings.is_stamped:
        yield "the target stamps its own times: compared without them"


def shown(ranges: Ranges) -> str:
    """The first few ranges, last offset included, for people."""
    listed = list(ranges)
    texts = [
        str(start) if end == start + 1 else f"{start}-{end - 1}" for start, end in listed[:_SHOWN_RANGES]
    ]
    more = len(listed) - _SHOWN_RANGES
    return ", ".join(texts) + (f" and {more} more stretches" if more > 0 else "")


def result_row(adoption: PartitionAdoption) -> dict[str, object]:
    """A line of the result table; null where nothing was compared or paired."""
    findings = adoption.findings
    runs = findings.runs if findings is not None else []
    source_goes_on, target_goes_on = adoption.goes_on_at or (None, None)
    return {
        "source_topic": adoption.pair.source.topic,
        "partition": adoption.pair.source.partition,
        "target_topic": adoption.pair.target.topic,
        "verdict": str(adoption.verdict),
        "paired": findings.paired if findings is not None else None,
        "source_first": runs[0].source_start if runs else None,
        "source_last": runs[-1].source_end - 1 if runs else None,
        "target_first": runs[0].target_start if runs else None,
        "target_last": runs[-1].target_end - 1 if runs else None,
        "duplicates": findings.duplicates.records if findings is not None else None,
        "unmatched_source": _ranges_text(findings.missing) if findings is not None else None,
        "unmatched_target": _unmatched_target(findings) if findings is not None else None,
        "source_goes_on": source_goes_on,
        "target_goes_on": target_goes_on,
        "remarks": "; ".join(adoption.remarks) or None,
    }


def _ranges_text(ranges: Ranges) -> str | None:
    return shown(ranges) if ranges else None


def _unmatched_target(findings: PairingResult) -> str | None:
    parts = (findings.target_before, findings.target_between, findings.foreign)
    return ", ".join(shown(part) for part in parts if part) or None
