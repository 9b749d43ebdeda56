"""Verdicts on brokers: every verdict of every check, and both sides of every boundary."""

from types import SimpleNamespace
from typing import cast

import pytest

from ledger.doctor import cluster
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.measurements import Answer, AppendObservation, ClockObservation, Reach, Validity
from ledger.doctor.probes import ClusterProbe
from ledger.doctor.results import CheckResult, Unmeasured, is_safe

NOW = 1_700_000_000_000
DAY = 86_400_000
NO_ANSWER = Unmeasured("no answer")
NEEDS = [need.spoken for need in cluster.BOTH_SIDES + cluster.TARGET_SIDE]
NEWEST = {need.key: (0, need.oldest) for need in sorted(NEEDS, key=lambda need: need.oldest)}


# Reaching --------------------------------------------------------------------------------------


def test_an_address_that_answers_says_how_fast() -> None:
    result = cluster.reached("cluster east", Check.BOOTSTRAP_ADDRESS, "b:1", Reach(12.4, {}))
    assert (result.verdict, result.measured) == (Verdict.OK, "b:1 answered, connected in 12 ms")


def test_an_address_that_does_not_answer_has_failed_with_the_reason() -> None:
    result = cluster.reached("cluster east", Check.BOOTSTRAP_ADDRESS, "b:1", Unmeasured("b:1 refused"))
    assert (result.verdict, result.measured) == (Verdict.FAILED, "b:1 refused")
    assert result.advice


@pytest.mark.parametrize(
    ("left_ms", "verdict"),
    [
        (14 * DAY, Verdict.OK),
        (14 * DAY - 1, Verdict.WARNING),
        (1, Verdict.WARNING),
        (0, Verdict.FAILED),
        (-3 * DAY, Verdict.FAILED),
    ],
)
def test_a_certificate_ends(left_ms: int, verdict: Verdict) -> None:
    validity = Validity(NOW - 30 * DAY, NOW + left_ms)
    assert cluster.certificate("broker b", Check.TLS_CERTIFICATE, validity, NOW).verdict is verdict


@pytest.mark.parametrize(("early_ms", "verdict"), [(0, Verdict.OK), (1, Verdict.FAILED)])
def test_a_certificate_begins(early_ms: int, verdict: Verdict) -> None:
    validity = Validity(NOW + early_ms, NOW + 100 * DAY)
    assert cluster.certificate("broker b", Check.TLS_CERTIFICATE, validity, NOW).verdict is verdict


def test_a_certificate_that_was_not_shown_is_unknown() -> None:
    result = cluster.certificate("broker b", Check.TLS_CERTIFICATE, NO_ANSWER, NOW)
    assert (result.verdict, result.measured) == (Verdict.UNKNOWN, "no answer")


@pytest.mark.parametrize(
    ("now", "recorded", "verdict"),
    [
        ("a", "a", Verdict.OK),
        ("a", None, Verdict.OK),
        ("a", "b", Verdict.FAILED),
        (NO_ANSWER, "a", Verdict.UNKNOWN),
        ("a", NO_ANSWER, Verdict.UNKNOWN),
    ],
)
def test_a_cluster_is_the_recorded_one(
    now: str | Unmeasured, recorded: str | Unmeasured | None, verdict: Verdict
) -> None:
    assert cluster.identity("cluster east", now, recorded).verdict is verdict


# Versions --------------------------------------------------------------------------------------


def versions_of(spoken: dict[int, tuple[int, int]], *, is_target: bool = True) -> list[CheckResult]:
    return list(cluster.versions("broker b", Reach(1.0, spoken), is_target=is_target))


def test_a_broker_that_speaks_all() -> None:
    (result,) = versions_of(NEWEST)
    assert (result.verdict, result.measured) == (Verdict.OK, "speaks all that a target needs")


@pytest.mark.parametrize("need", cluster.BOTH_SIDES + cluster.TARGET_SIDE, ids=str)
def test_each_missing_request_is_told_with_what_is_lost(need: cluster.Requirement) -> None:
    key = need.spoken.key
    lacking = {**NEWEST, key: (0, need.spoken.oldest - 1)}
    (result,) = versions_of(lacking)
    assert result.verdict is (Verdict.FAILED if need.needed else Verdict.WARNING)
    assert need.spoken.request in result.measured
    assert need.without in str(result.advice)
    (unknown_request,) = versions_of({other: value for other, value in NEWEST.items() if other != key})
    assert "the request is unknown" in unknown_request.measured


def test_a_broker_too_new_for_the_program_is_told() -> None:
    (result,) = versions_of({**NEWEST, 9: (9, 12)})
    assert (result.verdict, result.measured) == (
        Verdict.FAILED,
        "OffsetFetch 7 to 8 is not spoken; 9 to 12 are",
    )


def test_a_source_needs_less() -> None:
    source = {need.spoken.key: NEWEST[need.spoken.key] for need in cluster.BOTH_SIDES}
    (result,) = versions_of(source, is_target=False)
    assert result.verdict is Verdict.OK
    assert {f.verdict for f in versions_of(source)} == {Verdict.FAILED, Verdict.WARNING}


def test_versions_of_a_broker_that_does_not_answer_are_unknown() -> None:
    (result,) = cluster.versions("broker b", NO_ANSWER, is_target=False)
    assert result.verdict is Verdict.UNKNOWN


# The probe -------------------------------------------------------------------------------------


def as_expected() -> list[Answer]:
    return [
        Answer(45, -1) if expectation.offset is None else Answer(0, expectation.offset)
        for expectation in cluster.SCRIPT
    ]


def observed(answers: list[Answer], ends: dict[int, int] | None = None) -> CheckResult:
    found = AppendObservation("t", tuple(answers), cluster.ENDS if ends is None else ends)
    return cluster.compare_and_append("cluster west", found)


def test_a_broker_that_takes_no_id_that_it_has_not_given_is_a_warning() -> None:
    found = AppendObservation("t", tuple(as_expected()), cluster.ENDS, takes_drawn=False)
    result = cluster.compare_and_append("cluster west", found)
    assert (result.verdict, "takes no producer id that it has not given" in str(result.measured)) == (
        Verdict.WARNING,
        True,
    )


def test_the_script_ends_where_its_written_batches_end() -> None:
    """Of expectations with the same offset and partition only the first writes."""
    written = {(e.send.partition, e.offset): e.send.count for e in cluster.SCRIPT if e.offset is not None}
    for partition, end in cluster.ENDS.items():
        starts = sorted((offset, count) for (where, offset), count in written.items() if where == partition)
        assert sum(count for _, count in starts) == end
        assert [offset for offset, _ in starts] == [
            sum(count for _, count in starts[:index]) for index in range(len(starts))
        ]


def test_a_target_that_compares() -> None:
    result = observed(as_expected())
    assert result.verdict is Verdict.OK
    assert "12 of 12 answers" in result.measured


@pytest.mark.parametrize("index", range(len(cluster.SCRIPT)))
def test_each_wrong_answer_fails_and_is_named(index: int) -> None:
    for wrong in (Answer(0, 99), Answer(47, -1)):
        answers = as_expected()
        answers[index] = wrong
        result = observed(answers)
        assert result.verdict is Verdict.FAILED
        assert result.measured.startswith(cluster.SCRIPT[index].shows)
        assert result.measured.count("wanted") == 1


def test_a_repetition_that_was_written_after_all_fails() -> None:
    result = observed(as_expected(), {0: 10, 1: 5})
    assert (result.verdict, result.measured) == (Verdict.FAILED, "partition 0 ends at 10, not at 7")


def test_a_probe_without_answers_is_unknown() -> None:
    assert cluster.compare_and_append("cluster west", NO_ANSWER).verdict is Verdict.UNKNOWN
    assert [f.verdict for f in cluster.target_clocks("west", NO_ANSWER)] == [Verdict.UNKNOWN]


@pytest.mark.parametrize(
    ("is_target", "checks"),
    [(False, [Check.BROKER_CLOCK]), (True, [Check.COMPARE_AND_APPEND, Check.BROKER_CLOCK])],
)
def test_what_only_a_write_tells_is_skipped_where_nobody_asked_for_it(
    is_target: bool, checks: list[Check]
) -> None:
    probe = cast(ClusterProbe, SimpleNamespace(alias="east"))
    seen = cluster.ClusterMeasurements(probe, {}, None, {}, "id", {})
    found = list(cluster.probe_findings(seen, None, is_source=True, is_target=is_target))
    assert [(one.subject, one.check, one.verdict) for one in found] == [
        ("cluster east", check, Verdict.SKIPPED) for check in checks
    ]


@pytest.mark.parametrize(
    ("stamped_ms", "verdict"),
    [
        (1_020, Verdict.OK),
        (1_040 + 1_000, Verdict.OK),
        (1_040 + 1_001, Verdict.WARNING),
        (1_000 - 1_000, Verdict.OK),
        (1_000 - 1_001, Verdict.WARNING),
    ],
)
def test_a_clock_is_off_by_what_lies_outside_the_round_trip(stamped_ms: int, verdict: Verdict) -> None:
    seen = ClockObservation(node_id=3, sent_ms=1_000, stamped_ms=stamped_ms, answered_ms=1_040)
    (result,) = cluster.target_clocks("west", [seen])
    assert (result.subject, result.verdict) == ("broker west/3", verdict)


def test_the_direction_of_a_wrong_clock_is_told() -> None:
    ahead, behind = (
        next(cluster.target_clocks("west", [ClockObservation(1, 10_000, stamped, 10_010)])).measured
        for stamped in (15_010, 5_000)
    )
    assert (ahead, behind) == ("at least 5 s ahead of this machine", "at least 5 s behind this machine")


@pytest.mark.parametrize(("expires_ms", "verdict"), [(3_600_000, Verdict.OK), (3_599_999, Verdict.WARNING)])
def test_producer_state_is_told_by_broker(expires_ms: int, verdict: Verdict) -> None:
    settings = {
        "producer.id.expiration.ms": str(expires_ms),
        "transactional.id.expiration.ms": "604800000",
    }
    (result,) = cluster.producer_state("west", {2: settings})
    assert (result.subject, result.verdict) == ("broker west/2", verdict)
    assert f"producer.id.expiration.ms {expires_ms}" in result.measured
    assert "7 d" in result.measured


def test_producer_state_of_old_brokers_is_that_of_transactions() -> None:
    (result,) = cluster.producer_state("west", {2: {"transactional.id.expiration.ms": "1000"}})
    assert result.verdict is Verdict.WARNING
    (nothing,) = cluster.producer_state("west", NO_ANSWER)
    assert (nothing.subject, nothing.verdict) == ("cluster west", Verdict.UNKNOWN)


# Together --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "safe", "strictly"),
    [
        (Verdict.OK, True, True),
        (Verdict.SKIPPED, True, True),
        (Verdict.WARNING, True, False),
        (Verdict.UNKNOWN, False, False),
        (Verdict.FAILED, False, False),
    ],
)
def test_what_is_safe(verdict: Verdict, safe: bool, strictly: bool) -> None:
    found = [CheckResult("x", Check.JAVA, Verdict.OK, ""), CheckResult("x", Check.JAVA, verdict, "")]
    assert is_safe(found, strict=False) is safe
    assert is_safe(found, strict=True) is strictly
