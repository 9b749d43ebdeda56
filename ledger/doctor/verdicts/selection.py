"""Verdicts on what a flow selects: its topics, the groups that are recorded, and patterns that do nothing."""

from collections.abc import Iterator, Sequence

from ledger.doctor.check_results import CheckResult, Unmeasured, counted, named, unknown
from ledger.doctor.checks import Check, Verdict
from ledger.domain.topics.idle_patterns import IdlePattern
from ledger.domain.topics.naming import NamePatterns, matches_any, plain_name

_ALL = ".*"


def selected_topics(
    subject: str, cluster: str, topics: Sequence[str] | Unmeasured, idle: Sequence[IdlePattern]
) -> CheckResult:
    """`topics` that are selected, and patterns that do nothing at the source `cluster`."""
    wrong = [pattern.described(cluster) for pattern in idle if not pattern.is_guard]
    guards = [pattern.pattern for pattern in idle if pattern.is_guard]
    advice = "correct the patterns; or topics do not exist yet, or the principal may not describe them"
    return _finding(subject, Check.SELECTED_TOPICS, topics, "topic", wrong, guards, advice)


def selected_groups(
    subject: str, cluster: str, groups: Sequence[str] | Unmeasured, patterns: NamePatterns
) -> CheckResult:
    """`groups`: all that the principal is shown."""
    if isinstance(groups, Unmeasured):
        return unknown(subject, Check.SELECTED_GROUPS, groups)
    selected = [*filter(patterns.matches, groups)]
    unmatched = [pattern for pattern in patterns.exclude if not any(_matching(pattern, groups))]
    wrong = [
        *(f"groups has '{p}'" for p in patterns.include if p != _ALL and not any(_matching(p, selected))),
        *(f"groups_exclude has '{p}'" for p in unmatched if plain_name(p) is not None),
    ]
    problems = [
        f"{pattern}: no group of {cluster} that this principal is shown matches it" for pattern in wrong
    ]
    guards = [pattern for pattern in unmatched if plain_name(pattern) is None]
    advice = "correct the patterns; or groups do not exist yet, or the principal may not describe them"
    return _finding(subject, Check.SELECTED_GROUPS, selected, "group", problems, guards, advice)


def _matching(pattern: str, names: Sequence[str]) -> Iterator[str]:
    return (name for name in names if matches_any([pattern], name))


def _finding(
    subject: str,
    check: Check,
    selected: Sequence[str] | Unmeasured,
    kind: str,
    wrong: Sequence[str],
    guards: Sequence[str],
    advice: str,
) -> CheckResult:
    if isinstance(selected, Unmeasured):
        return unknown(subject, check, selected)
    listed = f"{counted(len(selected), kind)}: {named(list(selected))}" if selected else f"no {kind}"
    so_far = [f"nothing to exclude so far: {named(guards)}"] if guards else []
    measured = "; ".join([listed, *wrong, *so_far])
    return CheckResult(
        subject, check, Verdict.WARNING if wrong else Verdict.OK, measured, advice if wrong else None
    )
