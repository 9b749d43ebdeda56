"""Verdicts on permissions: what is missing is named with its command; what is too much is a warning."""

import shlex
from itertools import pairwise

import pytest

from ledger.doctor import permissions
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.measurements import Operation, Permissions
from ledger.doctor.permissions import SOURCE_TOO_MUCH, SOURCE_TOPIC, TARGET_TOPIC, Granting
from ledger.doctor.results import CheckResult, Unmeasured

GRANTING = Granting("b:9092", "User:mirror")
READING = frozenset(SOURCE_TOPIC)
WRITING = frozenset(TARGET_TOPIC)


def reported(
    topics: dict[str, frozenset[Operation] | None],
    *,
    cluster: frozenset[Operation] | None = None,
    groups_seen: bool = True,
    hidden: tuple[str, ...] = (),
    enforced: bool = True,
) -> Permissions:
    return Permissions(enforced, cluster, topics, groups_seen, hidden)


def source_of(
    found: Permissions | Unmeasured, *, also_target: frozenset[str] = frozenset()
) -> list[CheckResult]:
    topics = [] if isinstance(found, Unmeasured) else list(found.topics)
    return list(permissions.source("flow f", found, topics, GRANTING, also_target=also_target))


def target_of(found: Permissions | Unmeasured, *absent: str) -> list[CheckResult]:
    topics = [] if isinstance(found, Unmeasured) else [name for name in found.topics if name not in absent]
    return list(permissions.target("flow f", found, topics, absent, GRANTING))


def verdicts(results: list[CheckResult]) -> list[Verdict]:
    return [result.verdict for result in results]


def test_a_source_that_may_only_be_read() -> None:
    needed, excess = source_of(reported({"a": READING, "b": READING}))
    assert (needed.check, needed.verdict, needed.measured) == (
        Check.SOURCE_PERMISSIONS,
        Verdict.OK,
        "2 topics: all that is needed",
    )
    assert (excess.check, excess.verdict) == (Check.SOURCE_EXCESS, Verdict.OK)


@pytest.mark.parametrize("operation", SOURCE_TOPIC)
def test_each_operation_that_a_source_lacks_is_named_with_its_command(operation: Operation) -> None:
    missing, _ = source_of(reported({"a": READING - {operation}, "b": READING}))
    assert missing.verdict is Verdict.FAILED
    assert missing.measured == f"{operation.value} missing on a"
    assert shlex.split(str(missing.advice)) == [
        *("kafka-acls.sh", "--bootstrap-server", "b:9092", "--command-config", "admin.properties"),
        *("--add", "--allow-principal", "User:mirror", "--operation", operation.value, "--topic", "a"),
    ]


@pytest.mark.parametrize("operation", TARGET_TOPIC)
def test_each_operation_that_a_target_lacks_is_named(operation: Operation) -> None:
    found = reported({"a": WRITING - {operation}, "b": WRITING})
    (missing,) = target_of(found)
    assert (missing.verdict, missing.measured) == (Verdict.FAILED, f"{operation.value} missing on a")


def test_topics_that_lack_the_same_share_a_row() -> None:
    less = READING - {Operation.READ}
    first, second, _ = source_of(reported({"a": less, "b": READING - {Operation.DESCRIBE}, "c": less}))
    assert [first.measured, second.measured] == ["Read missing on a, c", "Describe missing on b"]
    assert str(first.advice).endswith("--operation Read --topic a --topic c")


def test_a_topic_that_may_not_be_described_lacks_at_least_that() -> None:
    missing, excess = source_of(reported({"a": None}))
    assert (missing.verdict, missing.measured) == (
        Verdict.FAILED,
        "Describe missing on a; nothing else is reported",
    )
    assert all(f"--operation {operation.value}" in str(missing.advice) for operation in SOURCE_TOPIC)
    assert excess.verdict is Verdict.OK


@pytest.mark.parametrize("operation", sorted(SOURCE_TOO_MUCH))
def test_each_operation_that_is_too_much_at_a_source_is_a_warning(operation: Operation) -> None:
    needed, excess = source_of(reported({"a": READING | {operation}, "b": READING}))
    assert (needed.verdict, excess.verdict) == (Verdict.OK, Verdict.WARNING)
    assert excess.measured == f"{operation.value} allowed on a"
    assert "User:mirror" in str(excess.advice)


def test_a_topic_that_some_flow_writes_to_may_be_written() -> None:
    _, excess = source_of(reported({"a": READING | WRITING}), also_target=frozenset({"a"}))
    assert excess.verdict is Verdict.OK


def test_without_an_authorizer_nothing_is_missing_and_everything_too_much() -> None:
    needed, excess = source_of(reported({"a": READING | WRITING}, enforced=False))
    assert (needed.verdict, excess.verdict) == (Verdict.OK, Verdict.WARNING)
    assert "no authorizer" in needed.measured
    assert "no authorizer" in excess.measured


def test_groups_that_cannot_be_seen() -> None:
    some, _ = source_of(reported({"a": READING}, groups_seen=False))
    assert some.verdict is Verdict.WARNING
    assert str(some.advice).endswith("--operation Describe --group '*'")
    named, _ = source_of(reported({"a": READING}, groups_seen=False, hidden=("app",)))
    assert (named.verdict, named.measured) == (Verdict.FAILED, "Describe missing on group app")
    assert str(named.advice).endswith("--operation Describe --group app")


@pytest.mark.parametrize(
    ("on_cluster", "on_topic", "verdict"),
    [
        (frozenset({Operation.CREATE}), WRITING, Verdict.OK),
        (None, WRITING | {Operation.CREATE}, Verdict.OK),
        (None, WRITING, Verdict.FAILED),
        (frozenset({Operation.DESCRIBE}), WRITING, Verdict.FAILED),
    ],
)
def test_a_topic_that_is_to_be_made_needs_create(
    on_cluster: frozenset[Operation] | None, on_topic: frozenset[Operation], verdict: Verdict
) -> None:
    (result,) = target_of(reported({"new": on_topic}, cluster=on_cluster), "new")
    assert result.verdict is verdict
    if verdict is Verdict.FAILED:
        assert str(result.advice).endswith("--operation Create --topic new")


def test_a_topic_that_is_there_needs_no_create() -> None:
    assert verdicts(target_of(reported({"old": WRITING}))) == [Verdict.OK]


def test_a_producer_id_needs_one_of_two_operations() -> None:
    lacking = reported({"a": WRITING - {Operation.WRITE}})
    assert [f.measured.split()[0] for f in target_of(lacking)] == ["Write", "IdempotentWrite"]
    granted = reported({"a": WRITING - {Operation.WRITE}}, cluster=frozenset({Operation.IDEMPOTENT_WRITE}))
    assert [f.measured.split()[0] for f in target_of(granted)] == ["Write"]
    (command,) = (f.advice for f in target_of(lacking) if f.measured.startswith("Idempotent"))
    assert str(command).endswith("--operation IdempotentWrite --cluster")


def test_permissions_that_are_not_told_are_unknown() -> None:
    assert verdicts(source_of(Unmeasured("no answer"))) == [Verdict.UNKNOWN, Verdict.UNKNOWN]
    assert verdicts(target_of(Unmeasured("no answer"))) == [Verdict.UNKNOWN]


def test_a_principal_that_is_not_known_has_its_place_in_the_command() -> None:
    command = Granting("b:1", None).command([Operation.READ], [("topic", "with space")])
    assert "--allow-principal User:PRINCIPAL" in command
    assert command.endswith("--topic 'with space'")


@pytest.mark.parametrize(
    ("cluster", "lacking"),
    [
        (None, ["Describe", "DescribeConfigs"]),
        (frozenset({Operation.DESCRIBE, Operation.CREATE}), ["DescribeConfigs"]),
        (frozenset({Operation.DESCRIBE_CONFIGS}), ["Describe"]),
    ],
)
def test_what_recorders_may_not_read_is_a_warning_with_its_command(
    cluster: frozenset[Operation] | None, lacking: list[str]
) -> None:
    found = permissions.recorded("flow f", "east", reported({}, cluster=cluster), GRANTING)
    assert (found.check, found.verdict) == (Check.RECORDED_PERMISSIONS, Verdict.WARNING)
    assert found.measured.startswith(f"{', '.join(lacking)} missing on cluster east")
    words = shlex.split(str(found.advice))
    granted = [word for before, word in pairwise(words) if before == "--operation"]
    assert (granted, words[-1]) == (lacking, "--cluster")


def test_recorders_that_may_read_all_kinds_are_in_order() -> None:
    both = frozenset({Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS})
    for found in (reported({}, cluster=both), reported({}, enforced=False)):
        assert permissions.recorded("flow f", "east", found, GRANTING).verdict is Verdict.OK
    unasked = permissions.recorded("flow f", "east", Unmeasured("away"), GRANTING)
    assert unasked.verdict is Verdict.UNKNOWN
