"""A check that was carried out: its verdict, what was measured, what to do."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ledger.doctor.advice import OF_TROUBLE
from ledger.doctor.checks import Check, Verdict
from ledger.errors import MirrorLedgerError, Trouble

_NAMED_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """What could not be measured: why, at what (`cluster east`), and what to do about it.

    Two have one `cause` when one thing keeps both from being measured.
    """

    reason: str
    trouble: Trouble | None = None
    at: str = ""
    advice: str | None = None

    @property
    def cause(self) -> tuple[str, str]:
        """A secret may be that of several clusters. Other troubles are of one place, and keep all of it away."""
        if self.trouble is Trouble.SECRET:
            return "", self.reason
        is_one = self.trouble not in (None, Trouble.NOT_ALLOWED)
        return self.at, str(self.trouble) if is_one else self.reason

    @property
    def what_to_do(self) -> str:
        if self.advice is not None:
            return self.advice
        return "remove the reason and examine again" if self.trouble is None else OF_TROUBLE[self.trouble]


@dataclass(frozen=True, slots=True)
class NotMade:
    """A check that was not made."""

    subject: str
    check: Check


@dataclass(frozen=True, slots=True)
class CheckResult:
    """`subject` is `cluster east`, `broker east/1`, `flow east-to-west`, `ledger` or `machine`.

    `because` is set where something could not be measured. `not_made` are other checks that were not made for
    the same cause: nothing is known of them.
    """

    subject: str
    check: Check
    verdict: Verdict
    measured: str
    advice: str | None = None
    because: Unmeasured | None = None
    not_made: tuple[NotMade, ...] = ()


Value = TypeVar("Value")


def measure(measurement: Callable[[], Value], at: str = "") -> Value | Unmeasured:
    """The measured value, or why there is none. An examination continues after what it cannot measure."""
    try:
        return measurement()
    except MirrorLedgerError as error:
        return Unmeasured(str(error), error.trouble, at)


def unknown(subject: str, check: Check, why: Unmeasured) -> CheckResult:
    """The result for what could not be measured."""
    return CheckResult(subject, check, Verdict.UNKNOWN, why.reason, why.what_to_do, why)


def failed(subject: str, check: Check, why: Unmeasured) -> CheckResult:
    """The result where the lack of an answer is what was measured."""
    return CheckResult(subject, check, Verdict.FAILED, why.reason, why.what_to_do, why)


def is_safe(results: Iterable[CheckResult], *, strict: bool) -> bool:
    """Whether nothing failed or is unknown; with `strict`, nothing is weaker than it could be either."""
    refused = {Verdict.FAILED, Verdict.UNKNOWN} | ({Verdict.WARNING} if strict else set())
    return not any(result.verdict in refused for result in results)


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
