"""One row for each cause: checks that could not be made are counted in the row of what kept them from being made."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ledger.doctor.check_results import CheckResult, NotMade, counted
from ledger.doctor.checks import Verdict
from ledger.doctor.verdicts.places import LEDGER

_RANK = {Verdict.FAILED: 0, Verdict.UNKNOWN: 1}


def one_row_for_each_cause(results: Iterable[CheckResult]) -> list[CheckResult]:
    """The results in their order; of those with one cause the first that failed, else the first, stands for all."""
    listed = list(results)
    by_cause: dict[tuple[str, str], list[CheckResult]] = {}
    for result in listed:
        if result.because is not None:
            by_cause.setdefault(result.because.cause, []).append(result)
    standing = {id(root): root for root in map(_root, by_cause.values())}
    return [
        result if result.because is None else _with_rest(result, by_cause[result.because.cause])
        for result in listed
        if result.because is None or id(result) in standing
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
