"""Verdicts on the ledger and on this machine."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ledger.clock import DAY_MS, HOUR_MS
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.measurements import TableCommit, TableState
from ledger.doctor.results import (
    LEDGER,
    CheckResult,
    Unmeasured,
    duration,
    failed,
    named,
    size,
    unknown,
)
from ledger.errors import Trouble
from ledger.facts.cuts import ClockStep
from ledger.facts.tables import FORMAT_PROPERTY, KEEP_SUPERSEDED_HOURS, LEDGER_FORMAT
from ledger.jvm import check_java
from ledger.store.merging import BEHIND_FILES, files_behind
from ledger.words import counted, instant

MACHINE = "machine"
_HOURS_OF = {"minute": 1 / 60, "hour": 1, "day": 24, "week": 168}
CHECKPOINTS_AT_LEAST, CHECKPOINTS_AT_MOST = 50, 1000
DELTA_CHECKPOINT_INTERVAL = 10
BEHIND_ENTRIES = 1000
"""A table with so many entries in its log takes twice as long to open as one with a hundred."""
CLEANED_WITHIN_HOURS = 1
CLOCK_STEP_MS, CLOCK_STEP_DAYS = 1_000, 7
DISK_FAILED_BYTES, DISK_WARNING_BYTES = 512 * 2**20, 5 * 2**30
OLDEST_PYTHON = (3, 11)

OWN_OPERATIONS = frozenset(
    {"CREATE TABLE", "WRITE", "OPTIMIZE", "VACUUM START", "VACUUM END", "ADD COLUMN", "SET TBLPROPERTIES"}
)
REWRITES = frozenset(
    {"RESTORE", "DELETE", "UPDATE", "MERGE", "TRUNCATE", "REPLACE TABLE", "CREATE OR REPLACE TABLE"}
)

Tables = Mapping[str, TableState | None]
State = Mapping[str, TableState]


def ledger(tables: Tables | Unmeasured, *, now_ms: int) -> Iterator[CheckResult]:
    """All verdicts on the tables. Without a complete ledger the rest is unknown."""
    yield (complete := _tables(tables))
    if complete.because is not None or isinstance(tables, Unmeasured):
        assert complete.because is not None
        for check in (*_OF_TABLES, Check.LEDGER_MAINTENANCE, Check.LEDGER_COMMITS):
            yield unknown(LEDGER, check, complete.because)
        return
    present = {name: state for name, state in tables.items() if state is not None}
    for verdict_of in _OF_TABLES.values():
        yield verdict_of(present)
    yield _maintenance(present, now_ms)
    yield _commits(present, now_ms)


def _tables(tables: Tables | Unmeasured) -> CheckResult:
    check = Check.LEDGER_TABLES
    if isinstance(tables, Unmeasured):
        return _no_ledger(tables.reason, "check ledger.path and the rights to it")
    if missing := [name for name, state in tables.items() if state is None]:
        return _no_ledger(f"no table {named(missing)}", "correct ledger.path, or run `mirror-ledger init`")
    others = {
        name: state.properties.get(FORMAT_PROPERTY, "none")
        for name, state in tables.items()
        if state is not None and state.properties.get(FORMAT_PROPERTY) != str(LEDGER_FORMAT)
    }
    if others:
        measured = named([f"{name} is of format {version}" for name, version in others.items()])
        advice = f"this program knows format {LEDGER_FORMAT} alone: use the program that wrote it"
        return _no_ledger(measured, advice)
    return CheckResult(LEDGER, check, Verdict.OK, f"{len(tables)} tables of format {LEDGER_FORMAT}")


def _no_ledger(measured: str, advice: str) -> CheckResult:
    return failed(LEDGER, Check.LEDGER_TABLES, Unmeasured(measured, Trouble.LEDGER, LEDGER, advice))


def _append_only(tables: State) -> CheckResult:
    check = Check.LEDGER_APPEND_ONLY
    open_ = [
        n for n, state in tables.items() if state.properties.get("delta.appendOnly", "").lower() != "true"
    ]
    if open_:
        advice = "set the table property delta.appendOnly to true, and run the audits"
        return CheckResult(
            LEDGER, check, Verdict.FAILED, f"{named(open_)}: rows can be changed and deleted", advice
        )
    return CheckResult(LEDGER, check, Verdict.OK, "all tables")


def _retention(tables: State) -> CheckResult:
    check = Check.LEDGER_RETENTION
    kept = {
        f"{name} {setting}": state.properties.get(setting)
        for name, state in tables.items()
        for setting in ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
    }
    short = [
        f"{what} {value or 'is not set'}"
        for what, value in kept.items()
        if (hours := _hours(value)) is None or hours < KEEP_SUPERSEDED_HOURS
    ]
    if short:
        advice = "run `mirror-ledger maintain`: it sets what [ledger] keep_superseded_hours says"
        return CheckResult(LEDGER, check, Verdict.WARNING, named(short), advice)
    hours_kept = sorted({hours for value in kept.values() if (hours := _hours(value)) is not None})
    return CheckResult(LEDGER, check, Verdict.OK, f"all tables, {hours_kept[0]:g} hours or longer")


def _hours(interval: str | None) -> float | None:
    """Hours of a Delta interval; None for none and for what cannot be read."""
    match = re.fullmatch(
        r"(?:interval\s+)?(\d+)\s+(minute|hour|day|week)s?", (interval or "").strip().lower()
    )
    return int(match[1]) * _HOURS_OF[match[2]] if match else None


def _checkpoints(tables: State) -> CheckResult:
    check = Check.LEDGER_CHECKPOINTS
    every = {
        name: int(state.properties.get("delta.checkpointInterval", DELTA_CHECKPOINT_INTERVAL))
        for name, state in tables.items()
    }
    measured = ", ".join(f"{value}" for value in sorted(set(every.values())))
    outside = [n for n, value in every.items() if not CHECKPOINTS_AT_LEAST <= value <= CHECKPOINTS_AT_MOST]
    if outside:
        advice = "set delta.checkpointInterval to 100: more make appends slow, fewer make reading slow"
        return CheckResult(
            LEDGER, check, Verdict.WARNING, f"every {measured} commits ({named(outside)})", advice
        )
    return CheckResult(LEDGER, check, Verdict.OK, f"every {measured} commits")


def _history(tables: State) -> CheckResult:
    check = Check.LEDGER_HISTORY
    rewrites = [_described(name, commit) for name, commit in _all(tables) if _rewrites(commit)]
    if rewrites:
        advice = "find out who did it; recorded facts may be lost: read the version before, run the audits"
        return CheckResult(LEDGER, check, Verdict.FAILED, named(rewrites), advice)
    strange = [
        _described(name, commit) for name, commit in _all(tables) if commit.operation not in OWN_OPERATIONS
    ]
    if strange:
        advice = "find out who did it: no part of this program does"
        return CheckResult(LEDGER, check, Verdict.WARNING, named(strange), advice)
    return CheckResult(
        LEDGER, check, Verdict.OK, f"{len(_all(tables)):,} commits read: appends and maintenance only"
    )


def _all(tables: State) -> list[tuple[str, TableCommit]]:
    return [(name, commit) for name, state in tables.items() for commit in state.commits]


def _rewrites(commit: TableCommit) -> bool:
    return commit.operation in REWRITES or commit.overwrites


def _described(table: str, commit: TableCommit) -> str:
    what = f"{commit.operation} (overwrite)" if commit.overwrites else commit.operation
    return f"{table} version {commit.version}: {what}"


def _maintenance(tables: State, now_ms: int) -> CheckResult:
    check = Check.LEDGER_MAINTENANCE
    waiting = {name: files_behind(state.files, now_ms=now_ms) for name, state in tables.items()}
    old = {name: _outlived(state, now_ms) for name, state in tables.items()}
    behind = [
        *(
            f"{name}: {count:,} of {len(tables[name].files):,} files wait to be merged"
            for name, count in waiting.items()
            if count >= BEHIND_FILES
        ),
        *(
            f"{name}: {count:,} entries of the log should have been removed"
            for name, count in old.items()
            if count >= BEHIND_ENTRIES
        ),
    ]
    merged = [commit.committed_at_ms for _, commit in _all(tables) if commit.merges]
    last = (
        f"last merge {duration(now_ms - max(merged))} ago"
        if merged
        else "no merge in the logs as they are kept"
    )
    if behind:
        advice = "run `mirror-ledger maintain`; where a driver or recorder is at work, its log says why it does not"
        return CheckResult(LEDGER, check, Verdict.WARNING, f"{named(behind)}; {last}", advice)
    files = sum(len(state.files) for state in tables.values())
    measured = f"{files:,} files, {sum(waiting.values()):,} wait to be merged"
    return CheckResult(LEDGER, check, Verdict.OK, f"{measured}; {last}")


def _outlived(table: TableState, now_ms: int) -> int:
    """Commits that have been in the log for longer than is said, by more than maintenance takes to come round."""
    hours = _hours(table.properties.get("delta.logRetentionDuration"))
    if hours is None:
        return 0  # that nobody can tell is said by the check of how long they stay
    oldest_ms = now_ms - (hours + CLEANED_WITHIN_HOURS) * HOUR_MS
    return sum(commit.committed_at_ms < oldest_ms for commit in table.commits)


def _commits(tables: State, now_ms: int) -> CheckResult:
    ages = {
        name: now_ms - state.commits[0].committed_at_ms for name, state in tables.items() if state.commits
    }
    measured = ", ".join(f"{name} {duration(age)} ago" for name, age in ages.items())
    return CheckResult(LEDGER, Check.LEDGER_COMMITS, Verdict.OK, measured or "no commit in sight")


_OF_TABLES: Mapping[Check, Callable[[State], CheckResult]] = {
    Check.LEDGER_APPEND_ONLY: _append_only,
    Check.LEDGER_RETENTION: _retention,
    Check.LEDGER_CHECKPOINTS: _checkpoints,
    Check.LEDGER_HISTORY: _history,
}


def clocks(steps: Sequence[ClockStep] | Unmeasured, *, now_ms: int) -> CheckResult:
    """Whether times rise with rounds. What lies long back is reported and needs nothing: its times are past too."""
    check = Check.LEDGER_CLOCKS
    if isinstance(steps, Unmeasured):
        return unknown(LEDGER, check, steps)
    matter = [
        step
        for step in steps
        if step.back_ms > CLOCK_STEP_MS and now_ms - step.before_ms <= CLOCK_STEP_DAYS * DAY_MS
    ]
    if matter:
        measured = named(
            [_step(step) for step in sorted(matter, key=lambda step: step.back_ms, reverse=True)]
        )
        advice = (
            "set the clocks of hosts that write (NTP); where --as-of names a TIME between the two, nothing counts that "
            "the writer appended there from the later time on: name a cut instead"
        )
        return CheckResult(LEDGER, check, Verdict.WARNING, measured, advice)
    if steps:
        last = _step(max(steps, key=lambda step: step.before_ms))
        short = f"by at most a second or over {CLOCK_STEP_DAYS} days ago"
        return CheckResult(
            LEDGER, check, Verdict.OK, f"{counted(len(steps), 'step')} back, {short}; the last: {last}"
        )
    return CheckResult(LEDGER, check, Verdict.OK, "the times of each writer rise in all tables")


def _step(step: ClockStep) -> str:
    where = f"{step.table}, {step.writer} epoch {step.epoch} round {step.round}"
    return f"{where}: {instant(step.recorded_at_ms)}, {duration(step.back_ms)} before its append before"


# Where it is -----------------------------------------------------------------------------------


def exclusive_create(folder: str | None, refused: bool | Unmeasured) -> CheckResult:
    """Whether two writers cannot make the same commit; `folder` None: not a local one."""
    check = Check.LEDGER_EXCLUSIVE_CREATE
    if folder is None:
        advice = "see that all writers use the same path and that the store puts only if absent"
        return CheckResult(LEDGER, check, Verdict.SKIPPED, "not a local folder", advice)
    if isinstance(refused, Unmeasured):
        return unknown(LEDGER, check, refused)
    if not refused:
        advice = "move the ledger to another file system: two drivers could make the same commit"
        return CheckResult(LEDGER, check, Verdict.FAILED, f"a file at {folder} was created twice", advice)
    return CheckResult(LEDGER, check, Verdict.OK, f"at {folder} the second creation of a file is refused")


def place() -> CheckResult:
    """Nothing measurable tells which site a path belongs to."""
    measured = "cannot be known from here"
    advice = "keep the ledger at the target's side or in a third place: it must outlive the source"
    return CheckResult(LEDGER, Check.LEDGER_PLACE, Verdict.SKIPPED, measured, advice)


def disk(folder: str | None, free_bytes: int | Unmeasured) -> CheckResult:
    """Room for the ledger; `folder` None: not a local one."""
    check = Check.LEDGER_DISK
    if folder is None:
        return CheckResult(LEDGER, check, Verdict.SKIPPED, "not a local folder")
    if isinstance(free_bytes, Unmeasured):
        return unknown(LEDGER, check, free_bytes)
    verdict = (
        Verdict.FAILED
        if free_bytes < DISK_FAILED_BYTES
        else Verdict.WARNING
        if free_bytes < DISK_WARNING_BYTES
        else Verdict.OK
    )
    advice = None if verdict is Verdict.OK else "make room: a mirror that cannot record stops"
    return CheckResult(LEDGER, check, verdict, f"{size(free_bytes)} free at {folder}", advice)


# The machine -----------------------------------------------------------------------------------


def java(found: str | Unmeasured) -> CheckResult:
    """The adapter refuses what is too old, as `run` would."""
    if isinstance(found, Unmeasured):
        advice = "install Java 17 or later, or set JAVA_HOME"
        return CheckResult(MACHINE, Check.JAVA, Verdict.FAILED, found.reason, advice)
    return CheckResult(MACHINE, Check.JAVA, Verdict.OK, found)


def python(version: Sequence[int]) -> CheckResult:
    measured = ".".join(map(str, version))
    if tuple(version[:2]) < OLDEST_PYTHON:
        return CheckResult(MACHINE, Check.PYTHON, Verdict.FAILED, measured, "use Python 3.11 or later")
    return CheckResult(MACHINE, Check.PYTHON, Verdict.OK, measured)


# Machine ------------------------------------------------------------------------------------------
# Measurements of this machine for `doctor`.


def found_java() -> str:
    """The Java that Spark gets. Raises `SetupError` when there is none, or one that is too old."""
    return f"{check_java()}, 17 or later"
