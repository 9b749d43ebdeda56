"""Verdicts on topics: sizes, replication, partitions, settings, what a flow selects, who else writes to targets."""

from dataclasses import replace

import pytest

from ledger.doctor import topic_settings
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.flow import no_authorizer, selected_groups, selected_topics, target_writers
from ledger.doctor.results import CheckResult, Unmeasured
from ledger.doctor.topic_settings import TopicPair
from ledger.facts.findings import FindingName
from ledger.facts.permissions import Permission, topic_acl
from ledger.mirror.targets import SETTING_FINDINGS, target_findings
from ledger.topics.naming import IdlePattern, NamePatterns, PatternKey
from tests.support.topic_pairs import GOOD, NOT_KNOWN, UNBOUNDED_MS, pair

# -- Topics ----------------------------------------------------------------------------------------

BROKERS = {1: {"socket.request.max.bytes": "104857600", "replica.fetch.max.bytes": "1048576"}}


def only(results: list[CheckResult]) -> CheckResult:
    (result,) = results
    return result


def sizes(*pairs: TopicPair, **broker: int) -> list[CheckResult]:
    brokers = {1: {**BROKERS[1], **{name.replace("_", "."): str(value) for name, value in broker.items()}}}
    return list(topic_settings.batch_size("flow f", pairs, brokers))


# Sizes -----------------------------------------------------------------------------------------


def test_batches_pass() -> None:
    result = only(sizes(pair()))
    assert (result.verdict, result.measured) == (Verdict.OK, "batches of up to 1.0 MiB pass")


@pytest.mark.parametrize(("limit", "verdict"), [(1_048_588, Verdict.OK), (1_048_587, Verdict.WARNING)])
def test_a_target_topic_that_takes_less(limit: int, verdict: Verdict) -> None:
    assert only(sizes(pair(target={"max.message.bytes": str(limit)}))).verdict is verdict


def test_the_widest_gap_is_told_with_both_limits() -> None:
    smaller = pair(target={"max.message.bytes": "1000"})
    result = only(sizes(pair(target={"max.message.bytes": "1048000"}), smaller))
    assert "a takes batches of up to 1,048,588 B, east.a of up to 1,000 B" in result.measured
    assert "1048588" in str(result.advice)


@pytest.mark.parametrize(("limit", "is_fence"), [(128, True), (129, False)])
def test_a_fence_at_the_source_is_no_size(limit: int, is_fence: bool) -> None:
    fenced = pair(source={"max.message.bytes": str(limit)}, target={"max.message.bytes": "100"})
    result = only(sizes(fenced))
    assert result.verdict is Verdict.WARNING
    assert ("applications cannot write there" in result.measured) == is_fence


@pytest.mark.parametrize(
    ("limit", "verdict"), [(1_048_588 + 1024, Verdict.OK), (1_048_588 + 1023, Verdict.FAILED)]
)
def test_a_broker_that_takes_smaller_requests(limit: int, verdict: Verdict) -> None:
    assert only(sizes(pair(), socket_request_max_bytes=limit)).verdict is verdict


@pytest.mark.parametrize(
    ("limit", "replicas", "verdict"),
    [(1_048_576, 3, Verdict.OK), (1_048_575, 3, Verdict.WARNING), (1_048_575, 1, Verdict.OK)],
)
def test_a_broker_that_replicates_smaller_batches(limit: int, replicas: int, verdict: Verdict) -> None:
    assert only(sizes(pair(replicas=(3, replicas)), replica_fetch_max_bytes=limit)).verdict is verdict


def test_sizes_that_are_not_told_are_unknown() -> None:
    assert only(list(topic_settings.batch_size("flow f", NOT_KNOWN, BROKERS))).verdict is Verdict.UNKNOWN
    assert only(list(topic_settings.batch_size("flow f", (pair(),), NOT_KNOWN))).verdict is Verdict.UNKNOWN


# Replication -----------------------------------------------------------------------------------


def replication(one: TopicPair, brokers: int = 3) -> list[tuple[Verdict, str]]:
    found = topic_settings.replication("flow f", (one,), brokers)
    return [(result.verdict, result.measured) for result in found]


def test_well_replicated_topics() -> None:
    assert replication(pair()) == [(Verdict.OK, "1 topic: replicated, no unclean elections")]


@pytest.mark.parametrize(
    ("one", "verdict", "telling"),
    [
        (pair(target={"min.insync.replicas": "4"}), Verdict.FAILED, "every write is refused"),
        (pair(replicas=(3, 4), exists=False), Verdict.FAILED, "asks for more replicas than the 3 brokers"),
        (pair(replicas=(3, 1), target={"min.insync.replicas": "1"}), Verdict.WARNING, "one replica"),
        (pair(replicas=(3, 2)), Verdict.WARNING, "fewer replicas"),
        (pair(target={"min.insync.replicas": "1"}), Verdict.WARNING, "min.insync.replicas is 1"),
        (pair(target={"unclean.leader.election.enable": "true"}), Verdict.WARNING, "unclean"),
    ],
)
def test_weak_replication(one: TopicPair, verdict: Verdict, telling: str) -> None:
    ((found, measured),) = replication(one)
    assert found is verdict
    assert measured.startswith("east.a: ")
    assert telling in measured


def test_an_existing_topic_may_have_more_replicas_than_living_brokers() -> None:
    assert replication(pair(), brokers=2) == [(Verdict.OK, "1 topic: replicated, no unclean elections")]


def test_replication_that_is_not_told_is_unknown() -> None:
    for pairs, brokers in ((NOT_KNOWN, 3), ((pair(),), NOT_KNOWN)):
        assert only(list(topic_settings.replication("flow f", pairs, brokers))).verdict is Verdict.UNKNOWN


# Partitions and settings -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partitions", "verdict"), [((3, 3), Verdict.OK), ((3, 4), Verdict.WARNING), ((3, 2), Verdict.WARNING)]
)
def test_partitions(partitions: tuple[int, int], verdict: Verdict) -> None:
    found = list(topic_settings.partitions("flow f", (pair(partitions=partitions),)))
    assert only(found).verdict is verdict
    assert only(list(topic_settings.partitions("flow f", NOT_KNOWN))).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("compression.type", "zstd"),
        ("message.timestamp.type", "LogAppendTime"),
        ("message.timestamp.before.max.ms", str(UNBOUNDED_MS - 1)),
        ("message.timestamp.after.max.ms", "3600000"),
    ],
)
def test_settings_that_change_or_refuse_records(setting: str, value: str) -> None:
    changed = pair(target={setting: value})
    result = only(list(topic_settings.settings("flow f", (pair(), changed), {})))
    assert result.verdict is Verdict.WARNING
    assert result.measured.startswith(f"east.a: {setting}")
    to_be_made = replace(changed, exists=False)
    assert only(list(topic_settings.settings("flow f", (to_be_made,), {}))).verdict is Verdict.OK


def test_settings_that_are_right_or_not_told() -> None:
    assert only(list(topic_settings.settings("flow f", (pair(),), {}))).verdict is Verdict.OK
    assert only(list(topic_settings.settings("flow f", NOT_KNOWN, {}))).verdict is Verdict.UNKNOWN


RAISED = {
    FindingName.MIN_INSYNC_REPLICAS_ONE: pair(target={"min.insync.replicas": "1"}),
    FindingName.UNCLEAN_LEADER_ELECTION: pair(target={"unclean.leader.election.enable": "true"}),
    FindingName.RECOMPRESSED: pair(target={"compression.type": "zstd"}),
    FindingName.LOG_APPEND_TIME: pair(target={"message.timestamp.type": "LogAppendTime"}),
    FindingName.OLD_RECORDS_REFUSED: pair(target={"message.timestamp.before.max.ms": str(UNBOUNDED_MS - 1)}),
    FindingName.FUTURE_RECORDS_REFUSED: pair(target={"message.timestamp.after.max.ms": "3600000"}),
    FindingName.MAX_MESSAGE_BYTES_BELOW_SOURCE: pair(target={"max.message.bytes": "1000"}),
    FindingName.RETENTION_BELOW_SOURCE: pair(source={"retention.ms": "-1"}, target={"retention.ms": "1000"}),
}
"""What drivers raise of settings, each with a pair that has nothing else."""


@pytest.mark.parametrize("name", RAISED)
def test_what_a_driver_raises_of_settings_is_told_before_and_nothing_else(name: FindingName) -> None:
    """Both by the same rules: neither a result without a verdict nor a verdict without a result."""
    one = RAISED[name]
    raised = target_findings(
        one.target.name,
        source=one.source.settings,
        target=one.target.settings,
        replicas=one.target.replication_factor,
    )
    reported = [
        *sizes(one),
        *topic_settings.replication("flow f", (one,), 3),
        *topic_settings.settings("flow f", (one,), {}),
    ]
    is_raised = (
        name is not FindingName.MAX_MESSAGE_BYTES_BELOW_SOURCE
    )  # a driver says so when such a batch has come
    assert [result.name for result in raised] == [name] * is_raised
    assert len([result for result in reported if result.verdict is not Verdict.OK]) == 1
    assert len(reported) == 3


def test_every_finding_about_settings_is_told_before() -> None:
    worst = pair(
        source={"retention.ms": "-1"},
        target={
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "true",
            "compression.type": "zstd",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "1",
            "message.timestamp.after.max.ms": "1",
            "max.message.bytes": "1000",
            "retention.ms": "1000",
        },
    )
    assert set(worst.concerns) == set(RAISED) == set(SETTING_FINDINGS)


def test_brokers_without_the_time_bounds_have_none() -> None:
    old = pair()
    settings = {name: value for name, value in GOOD.items() if "max.ms" not in name}
    without = replace(old, target=replace(old.target, settings=settings))
    assert only(list(topic_settings.settings("flow f", (without,), {}))).verdict is Verdict.OK


# -- What a flow selects ---------------------------------------------------------------------------

MISSPELT = IdlePattern(PatternKey.TOPICS, "ordres")
GUARD = IdlePattern(PatternKey.EXCLUDE, "test-.*")


@pytest.mark.parametrize(
    ("topics", "idle", "verdict", "measured"),
    [
        (["a", "b"], [], Verdict.OK, "2 topics: a, b"),
        (["a"], [GUARD], Verdict.OK, "1 topic: a; nothing to exclude so far: test-.*"),
        (
            ["a"],
            [GUARD, MISSPELT],
            Verdict.WARNING,
            "1 topic: a; topics has 'ordres': no topic of east that this principal is shown matches it; "
            "nothing to exclude so far: test-.*",
        ),
        (
            [],
            [MISSPELT],
            Verdict.WARNING,
            "no topic; topics has 'ordres': no topic of east that this principal is shown matches it",
        ),
    ],
)
def test_topics(topics: list[str], idle: list[IdlePattern], verdict: Verdict, measured: str) -> None:
    found = selected_topics("flow f", "east", topics, idle)
    assert (found.check, found.verdict, found.measured) == (Check.SELECTED_TOPICS, verdict, measured)
    assert (found.advice is None) == (verdict is Verdict.OK)


@pytest.mark.parametrize(
    ("include", "exclude", "verdict", "measured"),
    [
        ((".*",), (), Verdict.OK, "2 groups: billing, orders"),
        (
            ("bil.*",),
            ("test-.*", "orders"),
            Verdict.OK,
            "1 group: billing; nothing to exclude so far: test-.*",
        ),
        (
            ("billing", "order"),
            ("ship", "orders"),
            Verdict.WARNING,
            "1 group: billing; groups has 'order': no group of east that this principal is shown matches it; "
            "groups_exclude has 'ship': no group of east that this principal is shown matches it",
        ),
        (
            ("orders",),
            ("orders",),
            Verdict.WARNING,
            "no group; groups has 'orders': no group of east that this principal is shown matches it",
        ),
    ],
)
def test_groups(include: tuple[str, ...], exclude: tuple[str, ...], verdict: Verdict, measured: str) -> None:
    found = selected_groups("flow f", "east", ["billing", "orders"], NamePatterns(include, exclude))
    assert (found.check, found.verdict, found.measured) == (Check.SELECTED_GROUPS, verdict, measured)


def test_a_source_without_groups_is_in_order_while_all_are_wanted() -> None:
    found = selected_groups("flow f", "east", [], NamePatterns((".*",)))
    assert (found.verdict, found.measured) == (Verdict.OK, "no group")


def test_what_was_not_told_is_unknown() -> None:
    assert selected_topics("flow f", "east", NOT_KNOWN, [MISSPELT]).verdict is Verdict.UNKNOWN
    assert selected_groups("flow f", "east", NOT_KNOWN, NamePatterns(("a",))).verdict is Verdict.UNKNOWN


# -- Other writers ---------------------------------------------------------------------------------

MIRROR = "User:mirror"


def acl(principal: str, name: str = "orders", *, is_denial: bool = False) -> Permission:
    permission = "deny" if is_denial else "allow"
    return topic_acl(name, principal, "write", permission_type=permission, pattern_type="prefixed")


@pytest.mark.parametrize(
    ("acls", "verdict", "measured"),
    [
        ([acl(MIRROR)], Verdict.OK, "2 topics: nobody else"),
        ([acl("User:a", "other")], Verdict.OK, "2 topics: nobody else"),
        ([acl("User:a"), acl("User:a", is_denial=True)], Verdict.OK, "2 topics: nobody else"),
        (
            [acl("User:a"), acl("User:*", "orders.eu"), acl(MIRROR)],
            Verdict.WARNING,
            "User:*, User:a may write to orders, orders.eu",
        ),
    ],
)
def test_other_principals_that_may_write_are_named(
    acls: list[Permission], verdict: Verdict, measured: str
) -> None:
    found = target_writers("flow f", ["orders", "orders.eu"], frozenset(acls), MIRROR)
    assert (found.verdict, found.measured) == (verdict, measured)
    assert (found.advice is None) == (verdict is Verdict.OK)


def test_what_is_not_known_is_not_in_order() -> None:
    unread = target_writers("flow f", ["orders"], Unmeasured("no DESCRIBE"), MIRROR)
    assert (unread.verdict, unread.measured) == (Verdict.UNKNOWN, "no DESCRIBE")
    nameless = target_writers("flow f", ["orders"], frozenset({acl("User:a")}), None)
    assert (nameless.verdict, nameless.advice) == (
        Verdict.UNKNOWN,
        "set mirror_principal of the cluster",
    )
    assert no_authorizer("flow f").verdict is Verdict.WARNING


def test_a_setting_that_the_target_would_refuse_is_told_before() -> None:
    refused = dict.fromkeys(
        ("east.a", "east.b"), "[Error 40] Invalid value 1 for configuration segment.bytes"
    )
    result = only(list(topic_settings.settings("flow f", (pair(),), refused)))
    assert result.verdict is Verdict.WARNING
    assert result.measured.startswith("east.a, east.b: the target does not take a setting: [Error 40]")
    assert "configuration_exclude" in str(result.advice)
