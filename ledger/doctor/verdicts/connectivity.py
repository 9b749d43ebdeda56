"""Verdicts on brokers: do they answer, for how long are their certificates valid, what do they speak."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ledger.doctor.check_results import CheckResult, Unmeasured, duration, failed, unknown
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.measurements import Reach, Validity

CERTIFICATE_WARNING_MS = 14 * 86_400_000


def reached(subject: str, check: Check, address: str, reach: Reach | Unmeasured) -> CheckResult:
    """Whether an address answers; no answer is the measurement here, not the lack of one."""
    if isinstance(reach, Unmeasured):
        return failed(subject, check, reach)
    return CheckResult(
        subject, check, Verdict.OK, f"{address} answered, connected in {reach.connect_ms:.0f} ms"
    )


def certificate(subject: str, check: Check, validity: Validity | Unmeasured, now_ms: int) -> CheckResult:
    """Whether a certificate is valid now and for the next two weeks."""
    if isinstance(validity, Unmeasured):
        return unknown(subject, check, validity)
    left_ms = validity.not_after_ms - now_ms
    if now_ms < validity.not_before_ms:
        measured = f"not valid before {duration(validity.not_before_ms - now_ms)} from now"
        return CheckResult(subject, check, Verdict.FAILED, measured, "check both clocks, or renew it")
    if left_ms <= 0:
        measured = f"expired {duration(-left_ms)} ago"
        return CheckResult(
            subject, check, Verdict.FAILED, measured, "renew it; no connection is made with it"
        )
    verdict = Verdict.WARNING if left_ms < CERTIFICATE_WARNING_MS else Verdict.OK
    advice = "renew it in time" if verdict is Verdict.WARNING else None
    return CheckResult(subject, check, verdict, f"expires in {duration(left_ms)}", advice)


def identity(subject: str, now: str | Unmeasured, recorded: str | Unmeasured | None) -> CheckResult:
    """Whether a cluster is the one that the ledger knows; `recorded` None: no writer ever claimed with it."""
    check = Check.CLUSTER_IDENTITY
    for value in (now, recorded):
        if isinstance(value, Unmeasured):
            return unknown(subject, check, value)
    if recorded is None:
        return CheckResult(subject, check, Verdict.OK, f"{now}; the ledger has recorded none yet")
    if now != recorded:
        meant = "mirror-ledger accept-cluster ALIAS --cluster-id ID --reason WHY"
        advice = f"correct bootstrap_servers; or say that it is meant: {meant}"
        return CheckResult(subject, check, Verdict.FAILED, f"{now}, the ledger recorded {recorded}", advice)
    return CheckResult(subject, check, Verdict.OK, f"{now}, as recorded")


# Versions --------------------------------------------------------------------------------------

NEWEST = 32767


@dataclass(frozen=True, slots=True)
class Requirement:
    """A request, the versions of it that will do, and what is lost without them.

    `needed`: without it a flow does not run. Else something weaker takes its place.
    """

    request: str
    key: int
    oldest: int
    newest: int
    needed: bool
    without: str

    def is_met(self, versions: Mapping[int, tuple[int, int]]) -> bool:
        spoken = versions.get(self.key)
        return spoken is not None and spoken[1] >= self.oldest and spoken[0] <= self.newest


BOTH_SIDES = (
    Requirement("Metadata", 3, 12, 12, True, "no topic ids and leader epochs: no topic can be copied"),
    Requirement("ListOffsets", 2, 4, NEWEST, True, "ends of partitions cannot be read"),
    Requirement("FindCoordinator", 10, 4, NEWEST, True, "committed offsets cannot be recorded"),
    Requirement("OffsetFetch", 9, 8, 8, True, "committed offsets cannot be recorded"),
    Requirement("DescribeConfigs", 32, 0, NEWEST, True, "settings of topics cannot be followed"),
    Requirement("Fetch", 1, 12, 13, True, "record batches cannot be read with leader epochs"),
    Requirement(
        "Fetch",
        1,
        13,
        13,
        False,
        "fetches go by topic name: a recreated topic is found only at the next refresh",
    ),
    Requirement("ListGroups", 16, 5, NEWEST, False, "types of groups are not recorded"),
)
TARGET_SIDE = (
    Requirement("Produce", 0, 9, 13, True, "record batches cannot be written"),
    Requirement("InitProducerId", 22, 0, NEWEST, True, "no producer id, so nothing is written exactly once"),
    Requirement("CreateTopics", 19, 0, NEWEST, True, "target topics cannot be created"),
    Requirement("CreatePartitions", 37, 0, NEWEST, True, "target topics cannot grow with their source"),
    Requirement(
        "Produce", 0, 13, 13, False, "writes go by topic name: one may reach a topic that was just recreated"
    ),
    Requirement("IncrementalAlterConfigs", 44, 0, NEWEST, False, "changed settings cannot follow the source"),
)


def versions(subject: str, reach: Reach | Unmeasured, *, is_target: bool) -> Iterator[CheckResult]:
    """One result for each request that is missing, or one that says that none is."""
    check = Check.BROKER_VERSION
    if isinstance(reach, Unmeasured):
        yield unknown(subject, check, reach)
        return
    missing = list(_missing(BOTH_SIDES + (TARGET_SIDE if is_target else ()), reach.versions))
    for need in missing:
        verdict = Verdict.FAILED if need.needed else Verdict.WARNING
        yield CheckResult(
            subject, check, verdict, _spoken(need, reach), f"{need.without}; upgrade the broker"
        )
    if not missing:
        side = "target" if is_target else "source"
        yield CheckResult(subject, check, Verdict.OK, f"speaks all that a {side} needs")


def _missing(
    requirements: tuple[Requirement, ...], versions: Mapping[int, tuple[int, int]]
) -> Iterator[Requirement]:
    """What is not spoken. A request that is needed and missing is not reported again for its better version."""
    reported: set[int] = set()
    for need in requirements:
        if not need.is_met(versions) and need.key not in reported:
            reported.add(need.key)
            yield need


def _spoken(need: Requirement, reach: Reach) -> str:
    wanted = (
        f"{need.request} {need.oldest}"
        if need.newest in (need.oldest, NEWEST)
        else (f"{need.request} {need.oldest} to {need.newest}")
    )
    spoken = reach.versions.get(need.key)
    return f"{wanted} is not spoken; " + (
        "the request is unknown" if spoken is None else f"{spoken[0]} to {spoken[1]} are"
    )
