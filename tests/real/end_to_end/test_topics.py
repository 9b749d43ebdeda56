"""Target topics follow on real brokers and real Spark: names, settings, scope, deletion."""

import json
import shlex
import time
from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from ledger.config.mirror import MirrorConfig
from ledger.errors import PreconditionError, UnsafeError
from ledger.recorders.observation import Subject
from ledger.sandbox.workload import create_topics
from tests.support.documents import quoted_lines
from tests.support.following import (
    RENAME,
    admin_of,
    config_of,
    consumed,
    copying,
    name_of,
    produce,
    values,
)
from tests.support.recorded import open_findings, operations, rows
from tests.support.runs import FLOW, run, running
from tests.support.site import RealSite
from tests.support.waiting import eventually

# Names -----------------------------------------------------------------------------------------


def test_a_topic_is_renamed_within_a_cluster_and_into_another_at_once(site: RealSite) -> None:
    """Both flows write into one target topic; each copies its own source only."""
    servers = {alias: cluster.bootstrap_servers for alias, cluster in site.pair.items()}
    topic = name_of("orders")
    for alias in ("east", "west"):
        create_topics(servers[alias], [f"{topic}_REPLICA"], partitions=1)
        produce(servers[alias], f"{topic}_REPLICA", f"{alias} 1", f"{alias} 2")
    shared = f'topics = ["{topic}.*"]\ntarget_mode = "shared"\n{RENAME}'
    ways = {
        "across": ("east", "west"),
        "within": ("west", "west"),
        "home-across": ("west", "east"),
        "home-within": ("east", "east"),
    }
    flows = {
        name: f'source = "{source}"\ntarget = "{target}"\n{shared}' for name, (source, target) in ways.items()
    }
    config = site.configured(flows)
    for _ in range(2):
        assert [run(config, site.spark, flow).records for flow in ("across", "within")] in ([2, 2], [0, 0])
    assert values(servers["west"], topic) == [b"east 1", b"east 2", b"west 1", b"west 2"]
    produce(servers["west"], f"{topic}_REPLICA", "west 3")
    produce(servers["east"], f"{topic}_REPLICA", "east 3")
    assert [run(config, site.spark, flow).records for flow in ("within", "across")] == [1, 1]
    assert values(servers["west"], topic)[4:] == [b"west 3", b"east 3"]
    _check_groups_that_run_on_both_sides(config, site.spark, servers, topic)


def _check_groups_that_run_on_both_sides(
    config: MirrorConfig, spark: SparkSession, servers: Mapping[str, str], topic: str
) -> None:
    """On the published topics each record is processed in one place, on the merged ones once in each cluster."""
    for flow in ("home-across", "home-within"):
        assert run(config, spark, flow).records == 3
    everything = sorted(f"{side} {n}".encode() for side in ("east", "west") for n in (1, 2, 3))
    published = [consumed(servers[side], f"{topic}_REPLICA", f"{topic}-once") for side in ("east", "west")]
    assert sorted(published[0] + published[1]) == everything
    for side in ("east", "west"):
        assert sorted(consumed(servers[side], topic, f"{topic}-in-each")) == everything


def test_two_topics_that_would_get_one_name_are_left_out(site: RealSite) -> None:
    topic = name_of("clash")
    create_topics(site.pair["east"].bootstrap_servers, [f"{topic}.1", f"{topic}.2"], partitions=1)
    rename = f"""topic_naming = "rename"\nrename = [{{ match = '({topic})\\..', to = '\\1' }}]"""
    config = site.configured({FLOW: copying(f"{topic}.*", rename)})
    run(config, site.spark)
    assert open_findings(config) == {("target_name_conflict", f"{topic}.{number}") for number in (1, 2)}
    with admin_of(config, "west") as west:
        assert topic not in west.topics()


# Settings --------------------------------------------------------------------------------------


def test_settings_follow_a_running_flow(site: RealSite) -> None:
    topic = name_of("settings")
    config = site.configured({FLOW: copying(topic)})
    with admin_of(config, "east") as east, admin_of(config, "west") as west:
        east.create_topic(
            topic, partitions=1, replication_factor=1, configuration={"retention.ms": "7000000"}
        )

        def at_target(name: str) -> str | None:
            return west.configurations([f"east.{topic}"]).get(f"east.{topic}", {}).get(name)

        with running(config, site.spark):
            eventually(lambda: at_target("retention.ms") == "7000000", "created with retention")
            west.change_settings(f"east.{topic}", to_set={"segment.ms": "60000"}, to_remove=[])
            east.change_settings(
                topic,
                to_set={"max.message.bytes": "2000000", "cleanup.policy": "compact"},
                to_remove=["retention.ms"],
            )
            eventually(lambda: at_target("cleanup.policy") == "compact", "a setting that was set")
            eventually(lambda: at_target("retention.ms") is None, "a setting that was removed")
            assert at_target("max.message.bytes") == "2000000"
            east.change_settings(
                topic, to_set={"max.message.bytes": "78", "cleanup.policy": "delete"}, to_remove=[]
            )
            eventually(lambda: at_target("cleanup.policy") == "delete", "a setting beside a fence")
        assert at_target("max.message.bytes") == "2000000", "a fence is not copied"
        assert at_target("segment.ms") == "60000", "what the mirror did not set is not removed"
    actions = [content["action"] for content in operations(config, "topic_followed")]
    assert actions == ["created", "settings_changed", "settings_changed"]


def test_a_setting_that_endangers_the_copy_is_a_finding(site: RealSite) -> None:
    topic = name_of("warned")
    follow = 'configuration_follow = "create"'
    config = site.configured({FLOW: copying(topic, follow)})
    create_topics(site.pair["east"].bootstrap_servers, [topic], partitions=1)
    assert not run(config, site.spark).stopped
    assert open_findings(config) == set()
    with admin_of(config, "west") as west:
        changed = {"compression.type": "gzip", "max.message.bytes": "1000", "retention.ms": "60000"}
        west.change_settings(f"east.{topic}", to_set=changed, to_remove=[])
        run(config, site.spark)
        names = {"recompressed", "retention_below_source"}
        assert open_findings(config) == {(name, f"east.{topic}") for name in names}
        west.change_settings(
            f"east.{topic}",
            to_set={"compression.type": "producer"},
            to_remove=["max.message.bytes", "retention.ms"],
        )
    run(config, site.spark)
    assert open_findings(config) == set()


# Patterns --------------------------------------------------------------------------------------


def test_a_misspelt_topic_is_told_by_doctor_run_and_status_until_there_is_one(
    site: RealSite, caplog: pytest.LogCaptureFixture
) -> None:
    servers = site.pair["east"].bootstrap_servers
    right, misspelt = name_of("right"), name_of("misspelt")
    create_topics(servers, [right], partitions=1)
    produce(servers, right, "1")
    flows = {FLOW: f'topics = ["{right}", "{misspelt}"]', "empty": copying(misspelt, 'prefix = "other"')}
    config = site.configured(flows)
    told = f"topics has '{misspelt}': no topic of east that this principal is shown matches it"

    rows = json.loads(site.command(config, "doctor", FLOW, "-o", "json").out)
    [selected] = [row for row in rows if row["check"] == "selected_topics"]
    assert (selected["verdict"], selected["measured"]) == ("warning", f"1 topic: {right}; {told}")
    for _ in range(2):
        assert not run(config, site.spark).stopped
    assert caplog.text.count(told) == 2, "each driver says it"
    with pytest.raises(UnsafeError, match=f"no topic of east is selected by topics \\({misspelt}\\)"):
        run(config, site.spark, "empty")
    status = site.command(config, "status", "--check")
    assert (status.code, " ".join(status.out.split()).count(told)) == (4, 2)

    create_topics(servers, [misspelt], partitions=1)
    for flow in (FLOW, "empty"):
        run(config, site.spark, flow)
    status = site.command(config, "status", "--check")
    assert (status.code, "pattern_matches_nothing" in status.out) == (0, False), status.out


def test_names_that_seem_internal_or_like_copies_are_mirrored_or_named(site: RealSite) -> None:
    servers, name = site.pair["east"].bootstrap_servers, name_of("names")
    plain = [name, f"{name}-internal", f"{name}.internal", f"mm2-{name}"]
    odd = [f"__{name}", f"west.{name}-old", f"west.{name}-named", f"{name}.heartbeats"]
    makers = f"{name}.checkpoints.internal"
    create_topics(servers, [*plain, *odd, makers], partitions=1)
    for topic in (*plain, *odd, makers):
        produce(servers, topic, topic)
    patterns = f'topics = [".*{name}.*", "west\\\\.{name}-named"]'

    def copies() -> set[str]:
        with admin_of(config, "west") as west:
            return {topic.removeprefix("east.") for topic in west.topics() if name in topic}

    config = site.configured({FLOW: patterns})
    rows = json.loads(site.command(config, "doctor", FLOW, "-o", "json").out)
    [selected] = [row for row in rows if row["check"] == "selected_topics"]
    left_out = f"begin as names of tools' topics do: __{name}; 1 topic with names of copies from the target"
    assert selected["verdict"] == "warning"
    assert left_out in selected["measured"]
    assert run(config, site.spark).records == len(plain) + 1
    assert copies() == {*plain, f"west.{name}-named"}
    assert open_findings(config) == {("topics_left_out", None)}
    status = site.command(config, "status", "--check")
    assert (status.code, left_out in " ".join(status.out.split())) == (4, True), status.out

    letting_in = config_of(site.folder, site.pair, {FLOW: f'{patterns}\nlet_in = ["__.*", ".*-old"]'})
    assert run(letting_in, site.spark).records == 2
    assert copies() == {*plain, *odd[:3]}, "heartbeats beside a topic of MirrorMaker's are its"
    assert open_findings(config) == set()


# Scope -----------------------------------------------------------------------------------------


@pytest.mark.fault(41)
def test_a_configuration_that_leaves_out_a_mirrored_topic_is_refused(site: RealSite) -> None:
    servers = site.pair["east"].bootstrap_servers
    kept, dropped = name_of("kept"), name_of("dropped")
    create_topics(servers, [kept, dropped], partitions=1)
    for topic in (kept, dropped):
        produce(servers, topic, "1")
    config = site.configured({FLOW: copying(f"{kept}|{dropped}")})
    assert run(config, site.spark).records == 2
    narrowed = config_of(site.folder, site.pair, {FLOW: copying(kept)})
    produce(servers, kept, "2")
    with pytest.raises(PreconditionError, match=rf"--allow-scope-reduction:\n  {dropped}: not selected"):
        run(narrowed, site.spark)
    assert run(narrowed, site.spark, allow_scope_reduction=True).records == 1
    assert operations(config, "scope_reduced") == [{"topics": {dropped: 1}}]
    produce(servers, kept, "3")
    assert run(narrowed, site.spark).records == 1, "what was accepted is not asked for again"


# Deletion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("delete_topics", [False, True])
def test_a_deleted_source_topic(site: RealSite, delete_topics: bool) -> None:
    servers = {alias: cluster.bootstrap_servers for alias, cluster in site.pair.items()}
    topic, other = name_of("gone"), name_of("stays")
    option = f"delete_topics = {str(delete_topics).lower()}"
    config = site.configured({FLOW: copying(f"{topic}|{other}", option, "checkpoint_seconds = 1")})
    create_topics(servers["east"], [topic, other], partitions=1)
    produce(servers["east"], topic, "a")
    assert consumed(servers["east"], topic, f"{topic}-group") == [b"a"]
    produce(servers["east"], topic, "b")
    recorded = frozenset({Subject.TOPICS, Subject.CHECKPOINTS})
    run(config, site.spark, recorded=recorded)
    with admin_of(config, "east") as east, admin_of(config, "west") as west:
        east.delete_topic(topic, topic_id=east.topics()[topic].topic_id)
        with running(config, site.spark, recorded=recorded):
            eventually(
                lambda: (
                    ("source_topic_deleted", topic) in open_findings(config)
                    or f"east.{topic}" not in west.topics()
                ),
                "the deletion is seen",
            )
            if delete_topics:
                eventually(lambda: f"east.{topic}" not in west.topics(), "the target is deleted")
            eventually(lambda: bool(operations(config, "finding_raised")), "the finding is recorded")
            eventually(
                lambda: any(row["absence"] == "gone" for row in rows(config, "checkpoints")),
                "the commit is seen to be gone",
            )
            time.sleep(1.5)  # more looks: nothing else is deleted, nothing is said twice
        assert (f"east.{topic}" in west.topics()) is not delete_topics
        assert f"east.{other}" in west.topics()
    deleted = [c["topic"] for c in operations(config, "topic_followed") if c["action"] == "deleted"]
    assert deleted == ([f"east.{topic}"] if delete_topics else [])
    [finding] = operations(config, "finding_raised")
    assert bool(open_findings(config)) is not delete_topics
    if not delete_topics:
        _continue_at_the_target(site, config, topic, finding["next"])


def _continue_at_the_target(site: RealSite, config: MirrorConfig, topic: str, advice: str) -> None:
    """What the finding prints is typed; the group then reads what it had not read. A failover takes the group along."""
    group, west = f"{topic}-group", site.servers[1]
    way = ("--from", "east", "--to", "west")
    places = json.loads(site.done(config, "offsets", "translate", *way, "--group", group, "-o", "json").out)
    assert [(one["status"], one["target_offset"]) for one in places] == [("gone", 1)]
    for accepted, is_blocked in (((), True), (("--accept", "gone"), False)):
        plan = site.command(config, "plan", "failover", *way, *accepted, "--reason", "east is lost")
        assert ("group_without_place" in plan.out + plan.err) is is_blocked, plan
    [line] = quoted_lines(advice)
    site.done(config, *shlex.split(line.replace("WHY", "deleted")))
    assert consumed(west, f"east.{topic}", group) == [b"b"]


# What has not followed --------------------------------------------------------------------------
