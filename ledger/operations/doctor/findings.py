"""A check that was carried out: its verdict, what was measured, what to do."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ledger.errors import MirrorLedgerError
from ledger.operations.doctor.checks import Check, Verdict

_NAMED_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject` is `cluster east`, `broker east/1`, `flow east-to-west`, `ledger` or `machine`."""

    subject: str
    check: Check
    verdict: Verdict
    measured: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """What could not be measured, and why."""

    reason: str


Value = TypeVar("Value")


def measure(measurement: Callable[[], Value]) -> Value | Unmeasured:
    """The measured value, or why there is none. An examination goes on after what it cannot measure."""
    try:
        return measurement()
    except MirrorLedgerError as error:
        return Unmeasured(str(error))


def unknown(subject: str, check: Check, why: Unmeasured) -> Finding:
    """The finding for what could not be measured."""
    return Finding(subject, check, Verdict.UNKNOWN, why.reason, "remove the reason and examine again")


def is_safe(findings: Iterable[Finding], *, strict: bool) -> bool:
    """Whether nothing failed or is unknown; with `strict`, nothing is weaker than it could be either."""
    refused = {Verdict.FAILED, Verdict.UNKNOWN} | ({Verdict.WARNING} if strict else set())
    return not any(finding.verdict in refused for finding in findings)


def named(names: Sequence[str]) -> str:
    """`a, b, c, d, e and 4 more`."""
    more = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, one: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def duration(ms: int) -> str:
    """A length of time for people: the two largest units."""
    if ms < 0:
        return f"-{duration(-ms)}"
    parts, left = [], ms
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 ms"


def size(number: int) -> str:
    """A number of bytes for people."""
    if number < 0:
        return f"-{size(-number)}"
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= factor:
            return f"{number / factor:,.1f} {unit}"
    return f"{number} B"
