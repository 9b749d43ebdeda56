"""A promoted target belongs to applications: nothing is appended there, whatever a driver finds at its source."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.mirror.progress import RunEnd
from ledger.sandbox.ports import free_ports
from ledger.sandbox.workload import create_topics
from tests.support.commands import command
from tests.support.following import admin_of, copying, name_of, produce, values
from tests.support.recorded import operations, query
from tests.support.runs import FLOW, run, running
from tests.support.site import RealSite
from tests.support.waiting import eventually

_QUIET_S = 3.0
"""Several rounds, and looks at topics."""


Change = Callable[[MirrorConfig, str, str], None]


@pytest.fixture
def change(capsys: pytest.CaptureFixture[str]) -> Change:
    """`promote` or `demote` a topic of west over east, as a user types it."""

    def made(config: MirrorConfig, act: str, topic: str) -> None:
        told = ("west", "--over", "east", "--topic", topic, "--reason", "a fire")
        done = command(capsys, config, act, *told)
        assert (done.code, len(done.out.split())) == (0, 1), done.err
        again = command(capsys, config, act, *told)
        assert (again.code, again.out) == (0, "")
        assert "nothing to do" in again.err

    return made


def test_a_driver_at_work_and_the_next_ones_leave_a_promoted_topic_alone(
    site: RealSite, change: Change
) -> None:
    east, west = site.servers
    topic, other = name_of("orders"), name_of("other")
    names = f'topics = ["{topic}", "{other}"]\ntopic_naming = "identity"'
    config = site.configured({FLOW: names})
    create_topics(east, [topic, other], partitions=1)
    produce(east, topic, "e0", "e1")
    with running(config, site.spark):
        eventually(lambda: _holds(config, west, topic, [b"e0", b"e1"]), "what there was is copied")
        change(config, "promote", topic)
        eventually(lambda: operations(config, "partition_stopped") != [], "the partition stops")
        produce(west, topic, "w2")
        produce(east, topic, "extra")
        with admin_of(config, "east") as admin:
            admin.change_settings(topic, to_set={"retention.ms": "86400000"}, to_remove=[])
        produce(east, other, "o0")
        eventually(lambda: _holds(config, west, other, [b"o0"]), "the other topic is copied")
        time.sleep(_QUIET_S)
    assert [row["cause"] for row in operations(config, "partition_stopped")] == ["promoted"]
    again = run(config, site.spark)
    assert (again.end, [(one.topic, one.cause) for one in again.stopped]) == (
        RunEnd.NOT_CAUGHT_UP,
        [(topic, "promoted")],
    )
    assert values(west, topic) == [b"e0", b"e1", b"w2"]
    with admin_of(config, "west") as admin:
        assert "retention.ms" not in admin.configurations([topic])[topic]
    [stopped] = [row for row in query(config, "flow_status", flow=FLOW) if row["source_topic"] == topic]
    assert (stopped["status"], stopped["stop_cause"]) == ("stopped", "promoted")


def test_it_continues_where_it_stood_when_it_is_demoted(site: RealSite, change: Change) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = site.configured({FLOW: copying(topic, 'topic_naming = "identity"')})
    create_topics(east, [topic], partitions=1)
    produce(east, topic, "e0", "e1")
    assert run(config, site.spark).records == 2
    change(config, "promote", topic)
    produce(east, topic, "e2")
    assert run(config, site.spark).records == 0
    change(config, "demote", topic)
    assert (run(config, site.spark).records, values(west, topic)) == (1, [b"e0", b"e1", b"e2"])
    assert len(operations(config, "partition_resumed")) == 1


def test_the_other_cluster_need_not_answer_and_the_promoted_one_must(site: RealSite) -> None:
    topic = name_of("orders")
    lines = {FLOW: copying(topic, 'topic_naming = "identity"')}
    alive = site.configured(lines)
    create_topics(site.pair["east"].bootstrap_servers, [topic], partitions=1)
    produce(site.pair["east"].bootstrap_servers, topic, "e0")
    assert run(alive, site.spark).records == 1
    told = ("--reason", "a fire", "--topic", topic)
    text = Path(alive.file).read_text()
    servers = {alias: site.pair[alias].bootstrap_servers for alias in ("east", "west")}
    dead = {alias: without(alive, text, servers[alias]) for alias in servers}
    refused = site.command(dead["west"], "promote", "west", "--over", "east", *told)
    assert (refused.code != 0, refused.out, operations(alive, "promoted")) == (True, "", [])
    site.done(dead["east"], "promote", "west", "--over", "east", *told)
    [promoted] = operations(alive, "promoted")
    with admin_of(alive, "east") as east, admin_of(alive, "west") as west:
        assert (promoted["former_id"], promoted["cluster_id"]) == (east.cluster_id(), west.cluster_id())


def without(config: MirrorConfig, text: str, servers: str) -> MirrorConfig:
    """The same configuration with a cluster at which nobody listens."""
    file = Path(config.file).with_name(f"without-{servers.replace(':', '-').replace(',', '_')}.toml")
    file.write_text(text.replace(servers, f"127.0.0.1:{free_ports(1)[0]}"))
    return load_config(file)


def _holds(config: MirrorConfig, servers: str, topic: str, expected: list[bytes]) -> bool:
    with admin_of(config, "west") as west:
        is_there = topic in west.topics()
    return is_there and values(servers, topic) == expected
