"""Brokers that do not know or refuse some requests and settings, as managed and compatible ones: mirrored all the same,
or refused before anything is written."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka import errors
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.examination import examine
from ledger.doctor.results import CheckResult
from ledger.errors import PreconditionError, Trouble
from ledger.recorders.observation import Subject
from ledger.sandbox import SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.support.commands import command
from tests.support.config_files import write_config
from tests.support.following import admin_of, name_of, produce, values
from tests.support.forwarder import Forwarder
from tests.support.plans import SHUT, TravellingApplications, both_ways, planned
from tests.support.recorded import broken_invariants, open_findings, operations, query, rows
from tests.support.refusing import Refusals
from tests.support.runs import FLOW, run, running
from tests.support.shops import Desk, Shop, beside
from tests.support.waiting import eventually

BY_NAME = {0: 12, 1: 12}
NOT_NEEDED = {
    "DescribeProducers": 61,
    "OffsetForLeaderEpoch": 23,
    "DescribeAcls": 29,
    "DescribeUserScramCredentials": 50,
    "DescribeClientQuotas": 48,
    "ListTransactions": 66,
    "DescribeTransactions": 65,
    "DescribeLogDirs": 35,
    "DescribeCluster": 60,
    "CreatePartitions": 37,
    "IncrementalAlterConfigs": 44,
    "DescribeConfigs": 32,
}
ALWAYS_ASKED = (
    "DescribeAcls",
    "DescribeUserScramCredentials",
    "DescribeClientQuotas",
    "DescribeLogDirs",
    "DescribeCluster",
    "DescribeConfigs",
)
CHANGES = ("CreatePartitions", "IncrementalAlterConfigs")
NEEDED = {"InitProducerId": 22, "Metadata": 3}
DENIED = errors.ClusterAuthorizationFailedError.errno
UNSUPPORTED, INVALID = errors.UnsupportedVersionError.errno, errors.InvalidRequestError.errno
ALL = frozenset(NOT_NEEDED.values())
ODD = {
    **{f"no_{name}": Refusals(unspoken=frozenset([key])) for name, key in NOT_NEEDED.items()},
    **{f"{name}_denied": Refusals(errors={key: DENIED}) for name, key in NOT_NEEDED.items()},
    **{f"{name}_invalid": Refusals(errors={key: INVALID}) for name, key in NOT_NEEDED.items()},
    "none": Refusals(unspoken=ALL, newest=BY_NAME),
    "all_denied": Refusals(errors=dict.fromkeys(ALL, DENIED)),
    "all_unsupported": Refusals(errors=dict.fromkeys(ALL, UNSUPPORTED)),
}
VALUES = [f"v{number}" for number in range(200)]


@pytest.fixture
def topic(broker_pair: dict[str, SandboxCluster]) -> str:
    """Filled at the source."""
    name, servers = name_of("lacking"), broker_pair["east"].bootstrap_servers
    kept = {"retention.ms": "123456789", "retention.bytes": "123456789"}
    create_topics(servers, [name], partitions=1, configuration=kept)
    produce(servers, name, *VALUES)
    return name


@pytest.fixture
def config(lines: dict[str, Forwarder], topic: str, tmp_path: Path) -> MirrorConfig:
    """A flow through the forwarders."""
    config = write_config(
        tmp_path, through(lines), {FLOW: f'topics = ["{topic}"]\nsync_groups = true\nround_seconds = 1.0'}
    )
    init_ledger(config)
    return config


def through(lines: Mapping[str, Forwarder]) -> dict[str, str]:
    return {"east": lines["source"].address, "west": lines["target"].address}


def make(lines: Mapping[str, Forwarder], refusals: Refusals) -> None:
    for line in lines.values():
        line.refusals = refusals


def refused(lines: Mapping[str, Forwarder]) -> set[int]:
    """Keys of requests that were asked, and answered otherwise than the brokers would."""
    return set().union(*(line.refused for line in lines.values()))


def against(config: MirrorConfig, *, may_ask: bool, probe: bool) -> list[CheckResult]:
    """What doctor has against the flow; who may not ask does not know."""
    found = examine(config, [], probe=probe, retention_share=0.25)
    bad = [one for one in found if one.verdict in (Verdict.FAILED, Verdict.UNKNOWN)]
    return [
        one for one in bad if may_ask or one.because is None or one.because.trouble is not Trouble.NOT_ALLOWED
    ]


@pytest.mark.parametrize("odd", list(ODD))
def test_what_is_not_needed_costs_no_record(
    lines: dict[str, Forwarder],
    broker_pair: dict[str, SandboxCluster],
    topic: str,
    config: MirrorConfig,
    spark: SparkSession,
    odd: str,
) -> None:
    make(lines, ODD[odd])
    assert against(config, may_ask=not odd.endswith("denied"), probe=True) == []

    run(config, spark, recorded=frozenset(Subject))

    assert against(config, may_ask=not odd.endswith("denied"), probe=False) == []
    at_west = broker_pair["west"].bootstrap_servers
    assert values(at_west, f"east.{topic}") == [one.encode() for one in VALUES]
    assert {row["cluster"] for row in rows(config, "high_watermarks")} == {"east", "west"}
    if len(ODD[odd].errors) == 1:  # what one answer keeps from being asked is asked
        assert refused(lines) >= {NOT_NEEDED[name] for name in ALWAYS_ASKED} & ODD[odd].errors.keys()
    assert broken_invariants(config) == {}


@pytest.mark.parametrize(
    "odd", [*NEEDED, *(f"InitProducerId {code}" for code in (DENIED, UNSUPPORTED, INVALID))]
)
def test_what_is_needed_is_refused_before_anything_is_written(
    lines: dict[str, Forwarder],
    broker_pair: dict[str, SandboxCluster],
    topic: str,
    config: MirrorConfig,
    spark: SparkSession,
    odd: str,
) -> None:
    name, _, code = odd.partition(" ")
    said = "gives no topic ids" if name == "Metadata" else "allocate a producer id"
    if code:
        make(lines, Refusals(errors={NEEDED[name]: int(code)}))
    elif name == "Metadata":
        make(lines, Refusals(newest={NEEDED[name]: 9}))
    else:
        make(lines, Refusals(unspoken=frozenset([NEEDED[name]])))
    with pytest.raises(PreconditionError, match=said) as found_out:
        run(config, spark)
    assert len(str(found_out.value).splitlines()) == 1
    if not code:
        found = examine(config, [], probe=False, retention_share=0.25)
        assert Check.BROKER_VERSION in {one.check for one in found if one.verdict is Verdict.FAILED}
    assert rows(config, "writers") == []
    client = AdminClient({"bootstrap.servers": broker_pair["west"].bootstrap_servers})
    assert f"east.{topic}" not in client.list_topics(timeout=10).topics


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("code", [None, DENIED, UNSUPPORTED, INVALID])
def test_a_change_that_the_target_refuses_costs_that_change(
    lines: dict[str, Forwarder],
    broker_pair: dict[str, SandboxCluster],
    topic: str,
    config: MirrorConfig,
    spark: SparkSession,
    name: str,
    code: int | None,
) -> None:
    run(config, spark)
    key, east = NOT_NEEDED[name], broker_pair["east"].bootstrap_servers
    lines["target"].refusals = Refusals(errors={key: code}) if code else Refusals(unspoken=frozenset([key]))
    lines["target"].cut()
    with admin_of(config, "east") as source:
        source.change_settings(topic, to_set={"retention.ms": "7300000"}, to_remove=[])
        source.add_partitions(topic, total=2)
    produce(east, topic, *VALUES)
    run(config, spark)
    waits = name == "CreatePartitions"  # for all of its partitions: producers spread keys over them
    assert values(broker_pair["west"].bootstrap_servers, f"east.{topic}") == [
        one.encode() for one in VALUES * (1 if waits else 2)
    ]
    finding = "partitions_not_added" if waits else "settings_not_changed"
    assert (finding, f"east.{topic}") in open_findings(config)
    assert broken_invariants(config) == {}


TAKEN = frozenset({"cleanup.policy", "compression.type", "max.message.bytes", "retention.ms"})
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"


@pytest.mark.parametrize("names_settings", [True, False], ids=["named", "unnamed"])
def test_settings_outside_a_list_are_left_out_and_told(
    lines: dict[str, Forwarder],
    broker_pair: dict[str, SandboxCluster],
    topic: str,
    config: MirrorConfig,
    spark: SparkSession,
    names_settings: bool,
) -> None:
    lines["target"].refusals = Refusals(settings=TAKEN, names_settings=names_settings)
    found = examine(config, [], probe=True, retention_share=0.25)
    assert [one for one in found if one.verdict in (Verdict.FAILED, Verdict.UNKNOWN)] == []
    assert Check.TARGET_SETTINGS in {one.check for one in found if one.verdict is Verdict.WARNING}
    copy = f"east.{topic}"

    def own() -> Mapping[str, str]:
        with admin_of(config, "west") as west:
            return west.configurations([copy]).get(copy, {})

    with running(config, spark):
        at_west = broker_pair["west"].bootstrap_servers
        eventually(lambda: "retention.ms" in own(), "the target topic is made")
        eventually(lambda: values(at_west, copy) == [one.encode() for one in VALUES], "all is copied")
        with admin_of(config, "east") as east:
            east.change_settings(
                topic, to_set={"segment.ms": "7200000", "retention.ms": "7300000"}, to_remove=[]
            )
        eventually(lambda: own()["retention.ms"] == "7300000", "what the target takes follows", within_s=60)
        eventually(
            lambda: "segment.ms = 7200000" in operations(config, "finding_raised")[-1]["message"],
            "what it does not take is told",
            within_s=60,
        )
    assert set(own()) <= TAKEN
    assert ("settings_not_changed", copy) in open_findings(config)
    first = next(
        one for one in operations(config, "finding_raised") if one["finding"] == "settings_not_changed"
    )
    assert BEFORE in first["message"]
    assert AFTER in first["message"]
    assert broken_invariants(config) == {}


ASKED_BY_PLANS = ("DescribeProducers", "OffsetForLeaderEpoch", "ListTransactions")
READ_ALONE = ALL - {NOT_NEEDED["IncrementalAlterConfigs"], NOT_NEEDED["DescribeConfigs"]}


@pytest.mark.parametrize(
    "refusals",
    [
        Refusals(unspoken=READ_ALONE, newest=BY_NAME),
        Refusals(errors=dict.fromkeys(READ_ALONE, UNSUPPORTED)),
        Refusals(errors=dict.fromkeys(READ_ALONE, INVALID)),
    ],
    ids=["none", "unsupported", "invalid"],
)
def test_applications_go_there_by_plan(
    lines: dict[str, Forwarder],
    broker_pair: dict[str, SandboxCluster],
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    refusals: Refusals,
) -> None:
    make(lines, refusals)
    east, west = (broker_pair[alias].bootstrap_servers for alias in ("east", "west"))
    topic = name_of("orders")
    config = write_config(tmp_path, through(lines), both_ways(topic))
    init_ledger(config)
    create_topics(east, [topic], partitions=2)
    shop, desk = Shop(topic, 2), Desk(name_of("billing"))
    leg = TravellingApplications(tmp_path, shop, desk, east, west)
    with running(config, spark, recorded=frozenset(Subject)), beside(leg.work):
        eventually(lambda: desk.is_at_work(200), "the group is at work")
        eventually(lambda: query(config, "flow_positions", flow=FLOW) != [], "the flow is at work")
        plan_id = planned(
            capsys, config, "switchover", *SHUT, "--topic", topic, "--group", desk.group, *leg.hooks
        )
        done = command(capsys, config, "apply", plan_id, "--reason", "a drill", "--yes")
        assert done.code == 0, done.err
    assert refused(lines) >= {NOT_NEEDED[name] for name in ASKED_BY_PLANS} & refusals.errors.keys()
    assert operations(config, "apply_ended")[-1]["figures"]["records_lost"] == 0
    assert sorted(desk.processed) == sorted(shop.written)
    assert broken_invariants(config) == {}
