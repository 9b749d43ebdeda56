"""A flow's last driver: whether it is alive, starting, or has ended, and since when."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ledger.facts.operations import DriverStarting, OperationKind, PendingStart
from ledger.facts.requests import asked_in_words
from ledger.facts.roles import LastClaim, ProcessMark, RoleVerdict
from ledger.words import duration

END_KINDS = (OperationKind.DRIVER_STARTING, OperationKind.STOP)
"""Kinds of rows of `operations` that tell whether somebody wanted the end of a driver."""
START_SECONDS = 180.0
"""A start takes as long as Spark does. One that takes longer needs attention; on another host it is not counted on."""


class DriverState(StrEnum):
    """What is known of a flow's last driver. The first that applies, in this order, is reported."""

    STARTING = "starting"
    """Its process has begun; Spark starts before it claims the flow. To do: wait; after three minutes it needs
    attention."""
    NEVER_RAN = "never_ran"
    """Nobody has claimed the flow yet. To do: `mirror-ledger run FLOW`."""
    RELEASED = "released"
    """The last driver ended properly. To do: start it when the flow is to continue."""
    CLAIMED = "claimed"
    """For answers about the past (`--as-of`): whether the process was alive then is not known."""
    DEAD = "dead"
    """The driver's process on this host has ended without a release. To do: start it again: what it copied and had
    not recorded is found at the target."""
    SILENT = "silent"
    """It has recorded nothing for three heartbeats. To do: check its host; start another driver when the host or the
    process is down."""
    RUNNING = "running"
    """None of these."""


@dataclass(frozen=True, slots=True)
class DriverReport:
    """The flow's last driver; what nobody knows is None.

    `starting_since_ms`: of one that is starting, whose host and process these are then. `failed_start_at_ms`: the
    process that began last, then, ended before it claimed the flow. `ends_by_itself`: it was to run until it had caught
    up. `asked_to_stop`: by whom, in words, after it was started. `was_id_refused`: the target takes no producer
    id that it has not given.
    """

    state: DriverState
    host: str | None = None
    process: int | None = None
    epoch: int | None = None
    claimed_at_ms: int | None = None
    last_recorded_at_ms: int | None = None
    silent_seconds: float | None = None
    starting_since_ms: int | None = None
    failed_start_at_ms: int | None = None
    ends_by_itself: bool = False
    asked_to_stop: str | None = None
    was_id_refused: bool = False

    @property
    def is_meant_to_be_away(self) -> bool:
        """Whether somebody wanted that it has ended."""
        return self.ends_by_itself or self.asked_to_stop is not None


_STATES = {
    None: DriverState.CLAIMED,
    RoleVerdict.HOLDER_DEAD: DriverState.DEAD,
    RoleVerdict.HOLDER_SILENT: DriverState.SILENT,
    RoleVerdict.IN_USE: DriverState.RUNNING,
}


def driver_report(claim: LastClaim | None, verdict: RoleVerdict | None, *, at_ms: int) -> DriverReport:
    """`verdict` None: as of a past cut; `at_ms`: what ages are counted to."""
    if claim is None:
        return DriverReport(DriverState.NEVER_RAN)
    mark = ProcessMark.parse(claim.host)
    return DriverReport(
        state=DriverState.RELEASED if claim.released else _STATES[verdict],
        host=mark.host,
        process=mark.pid,
        epoch=claim.epoch,
        claimed_at_ms=claim.claimed_at_ms,
        last_recorded_at_ms=claim.last_recorded_at_ms,
        silent_seconds=(at_ms - claim.last_recorded_at_ms) / 1000,
    )


def with_start(
    driver: DriverReport, start: PendingStart, *, is_alive: bool | None, at_ms: int
) -> DriverReport:
    """As a start makes it that no claim followed. `lives` None: its process cannot be seen from here."""
    if driver.state is DriverState.RUNNING:
        return driver
    is_recent = at_ms - start.at_ms < START_SECONDS * 1000
    if not (is_recent if is_alive is None else is_alive):
        return replace(driver, failed_start_at_ms=start.at_ms)
    mark = ProcessMark.parse(start.host)
    return DriverReport(
        DriverState.STARTING,
        host=mark.host,
        process=mark.pid,
        last_recorded_at_ms=driver.last_recorded_at_ms,
        starting_since_ms=start.at_ms,
    )


def with_its_end(driver: DriverReport, rows: Iterable[Mapping[str, Any]]) -> DriverReport:
    """With how it was started and whether it was asked to stop, from the flow's rows of `END_KINDS` in order."""
    ends_by_itself, asked_to_stop = False, None
    for row in rows:
        if row["kind"] == OperationKind.DRIVER_STARTING:
            ends_by_itself, asked_to_stop = DriverStarting.of_row(row).until_caught_up, None
        else:
            asked_to_stop = asked_in_words(row)
    return replace(driver, ends_by_itself=ends_by_itself, asked_to_stop=asked_to_stop)


def pending_start(
    starts: Iterable[Mapping[str, Any]], claims: Iterable[Mapping[str, Any]]
) -> PendingStart | None:
    """The last start, from rows of `operations`, unless a claim of the flow, from rows of `writers`, came after it."""
    found = [PendingStart.of_row(row) for row in starts]
    if not found:
        return None
    last = max(found, key=lambda start: start.at_ms)
    claimed_since = any(row["event"] == "claimed" and row["recorded_at_ms"] >= last.at_ms for row in claims)
    return None if claimed_since else last


def when_taken_up(flow: str, driver: DriverReport) -> str:
    """When a request that is recorded now is read."""
    if driver.state is DriverState.RUNNING:
        return f"the driver on {driver.host} takes it up after its round"
    if driver.state is DriverState.STARTING:
        return f"the driver that is starting on {driver.host} takes it up"
    if driver.state is DriverState.SILENT:
        assert driver.silent_seconds is not None, "what is silent has recorded something"
        return (
            f"the driver on {driver.host} has recorded nothing for {duration(driver.silent_seconds)}; the request is "
            "taken up when it continues, or at the next run"
        )
    return f"no driver of {flow} is running ({driver.state}); the request is taken up at the next run"
