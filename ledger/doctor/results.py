"""A check that was carried out: its verdict, what was measured, what to do."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ledger.doctor.checks import OF_TROUBLE, Check, Verdict
from ledger.errors import MirrorLedgerError, Trouble
from ledger.words import counted

LEDGER = "ledger"


# Check results ------------------------------------------------------------------------------------


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
        """A secret may be that of several clusters. Other troubles are of one place, and keep all of it away, but for
        a right or a request that is missing."""
        if self.trouble is Trouble.SECRET:
            return "", self.reason
        is_one = self.trouble not in (None, Trouble.NOT_ALLOWED, Trouble.NOT_SPOKEN)
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


class UnmeasuredError(Exception):
    """What a measurement rests on could not be measured; raised by `known`, and caught by `measure`."""

    def __init__(self, why: Unmeasured) -> None:
        super().__init__(why.reason)
        self.why = why


def known(value: Value | Unmeasured) -> Value:
    """A measured value, for another measurement that rests on it."""
    if isinstance(value, Unmeasured):
        raise UnmeasuredError(value)
    return value


def measure(measurement: Callable[[], Value], at: str = "") -> Value | Unmeasured:
    """The measured value, or why there is none. An examination continues after what it cannot measure."""
    try:
        return measurement()
    except UnmeasuredError as error:
        return error.why
    except MirrorLedgerError as error:
        return Unmeasured(str(error), error.trouble, at)


def unknown(subject: str, check: Check, why: Unmeasured) -> CheckResult:
    """The result for what could not be measured; what brokers do not know stays so, and keeps no flow from running."""
    verdict = Verdict.WARNING if why.trouble is Trouble.NOT_SPOKEN else Verdict.UNKNOWN
    return CheckResult(subject, check, verdict, why.reason, why.what_to_do, why)


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


# Causes -------------------------------------------------------------------------------------------
# One row for each cause: checks that could not be made are counted in the row of what kept them from being
# made.


_RANK = {Verdict.FAILED: 0, Verdict.UNKNOWN: 1, Verdict.WARNING: 2}


def one_row_for_each_cause(results: Iterable[CheckResult]) -> list[CheckResult]:
    """The results in their order; of those with one cause the first that failed, else the first, stands for all."""
    listed = list(results)
    by_cause: dict[tuple[str, str], list[CheckResult]] = {}
    for result in listed:
        if result.because is not None:
            by_cause.setdefault(result.because.cause, []).append(result)
    remaining = {id(root): root for root in map(_root, by_cause.values())}
    return [
        result if result.because is None else _with_rest(result, by_cause[result.because.cause])
        for result in listed
        if result.because is None or id(result) in remaining
    ]


def sentence(not_made: Sequence[NotMade]) -> str:
    """`12 other checks of cluster east and 7 of flow east-to-west could not be made`; empty for none."""
    if not not_made:
        return ""
    (first, number), *others = Counter(one.subject for one in not_made).items()
    parts = [f"{counted(number, 'other check')} of {_about(first)}"]
    parts += [f"{n:,} of {_about(subject)}" for subject, n in others]
    unmade = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{unmade} could not be made"


def _about(subject: str) -> str:
    return f"the {subject}" if subject == LEDGER else subject


def _root(of_one_cause: Sequence[CheckResult]) -> CheckResult:
    return min(of_one_cause, key=lambda result: _RANK[result.verdict])


def _with_rest(root: CheckResult, of_one_cause: Sequence[CheckResult]) -> CheckResult:
    rest = (NotMade(other.subject, other.check) for other in of_one_cause if other is not root)
    return replace(root, not_made=tuple(rest))
