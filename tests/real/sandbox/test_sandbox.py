"""The sandbox against its invariants S1-S4, with real brokers."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from ledger.config.file import load_config
from ledger.errors import PreconditionError, UsageError
from ledger.sandbox import BrokerState, ListenerSecurity, Sandbox, processes, state
from ledger.sandbox.command import sandbox as sandbox_command
from ledger.sandbox.processes import Process
from ledger.sandbox.properties import NodePorts
from ledger.sandbox.reading import ends, reader_properties
from tests.support.checkout import CHECKOUT
from tests.support.guarded import Guarded
from tests.support.trio import Trio


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A pair of this module's own, because these tests kill and pause brokers."""
    sandbox = Sandbox(tmp_path_factory.mktemp("pair") / "sandbox")
    try:
        sandbox.up(["east", "west"], brokers=1)
        yield sandbox
    finally:
        sandbox.down()


def bootstrap(sandbox: Sandbox, alias: str) -> str:
    return sandbox.status()[alias].bootstrap_servers


def quiet_admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def pids(sandbox: Sandbox) -> list[int | None]:
    return [broker.pid for cluster in sandbox.status().values() for broker in cluster.brokers]


def test_up_again_changes_nothing(pair: Sandbox) -> None:
    before = pair.status()
    assert pair.up(["east", "west"], brokers=1) == before
    assert {broker.state for cluster in before.values() for broker in cluster.brokers} == {
        BrokerState.RUNNING
    }


@pytest.mark.parametrize(
    ("clusters", "brokers", "overrides"),
    [
        (["east"], 1, {}),
        (["east", "west"], 3, {}),
        (["east", "west"], 1, {"east": {"num.io.threads": "2"}}),
    ],
)
def test_another_shape_is_refused(
    pair: Sandbox, clusters: list[str], brokers: int, overrides: dict[str, dict[str, str]]
) -> None:
    before = pair.status()
    with pytest.raises(PreconditionError, match="take it down first"):
        pair.up(clusters, brokers, overrides=overrides)
    assert pair.status() == before


def test_configuration_names_clusters_and_flows_that_are_opposite(pair: Sandbox) -> None:
    written = tomllib.loads(pair.configuration.read_text())
    assert written == {
        "ledger": {"path": str(pair.root / "ledger")},
        "clusters": {alias: {"bootstrap_servers": bootstrap(pair, alias)} for alias in ("east", "west")},
        "flows": {
            f"{source}-to-{target}": {
                "source": source,
                "target": target,
                "topics": [".*"],
                "groups": [".*"],
                "topic_naming": "identity",
                "opposite": f"{target}-to-{source}",
            }
            for source, target in (("east", "west"), ("west", "east"))
        },
    }
    assert load_config(pair.configuration).flow("west-to-east").opposite == "east-to-west"


def test_cluster_ids_are_the_brokers_own(pair: Sandbox) -> None:
    for alias, cluster in pair.status().items():
        admin = quiet_admin(bootstrap(pair, alias))
        described = admin.describe_cluster().result()
        assert described.cluster_id == cluster.cluster_id


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_data_and_ports_survive(pair: Sandbox, ending: str) -> None:
    before = pair.status()["east"]
    topic = f"kept-{ending}"
    create(before.bootstrap_servers, topic)
    write(before.bootstrap_servers, topic, b"still here")

    getattr(pair, ending)("east")
    assert pair.status()["east"].brokers[0].state is BrokerState.DEAD
    assert pair.status()["west"].brokers[0].state is BrokerState.RUNNING
    after = pair.start("east")

    assert after.brokers[0].pid != before.brokers[0].pid
    assert (after.bootstrap_servers, after.cluster_id) == (before.bootstrap_servers, before.cluster_id)
    assert read_one(after.bootstrap_servers, topic) == b"still here"


def test_no_signal_is_sent_to_the_dead_and_up_starts_what_is_dead_and_leaves_the_rest(pair: Sandbox) -> None:
    before = pair.status()
    pair.kill("west")
    with pytest.raises(PreconditionError, match="no signal was sent"):
        pair.pause("west")
    after = pair.up(["east", "west"], brokers=1)
    assert after["east"] == before["east"]
    assert after["west"].brokers[0].state is BrokerState.RUNNING
    assert after["west"].brokers[0].port == before["west"].brokers[0].port


def test_pause_and_resume(pair: Sandbox) -> None:
    pair.pause("east")
    try:
        assert pair.status()["east"].brokers[0].state is BrokerState.PAUSED
    finally:
        pair.resume("east")
    assert pair.status()["east"].brokers[0].state is BrokerState.RUNNING


def test_signals_to_the_unknown_are_refused(pair: Sandbox) -> None:
    with pytest.raises(UsageError, match="no cluster 'north'"):
        pair.kill("north")
    with pytest.raises(UsageError, match="no broker 2"):
        pair.stop("east", 2)


def test_commands_print_data_on_stdout(pair: Sandbox) -> None:
    runner = CliRunner()
    shown = runner.invoke(sandbox_command, ["status", "--root", str(pair.root), "-o", "json"])
    assert shown.exit_code == 0
    addresses = {cluster["alias"]: cluster["bootstrap_servers"] for cluster in json.loads(shown.stdout)}
    assert addresses == {alias: bootstrap(pair, alias) for alias in ("east", "west")}
    again = runner.invoke(sandbox_command, ["up", "--root", str(pair.root)])
    assert str(pair.configuration) in again.stderr
    header, *_, first, second = (line.split()[0] for line in again.stdout.splitlines())
    assert (header, first, second) == ("cluster", "east", "west")


def test_what_is_filled_a_second_time_gets_as_much_again(pair: Sandbox) -> None:
    runner, servers = CliRunner(), bootstrap(pair, "west")
    fill = ("fill", "--root", str(pair.root), "--cluster", "west", "--records", "1000")
    held = []
    for _ in range(2):
        filled = runner.invoke(sandbox_command, fill)
        assert filled.exit_code == 0, filled.exception
        held.append(
            sum(end for (topic, _), end in ends(servers, ["events-zstd", "stamped"]).items() if topic)
        )
    assert held == [2_000, 4_000]


def test_two_starters_agree_and_brokers_survive_them(tmp_path: Path) -> None:
    """S4: the second one waits for the first and finds its cluster, which is there when both have ended.

    What was asked for reaches the broker, and `down` leaves nothing.
    """
    sandbox = Sandbox(tmp_path / "sandbox")
    starter = (
        "import sys; from pathlib import Path; from ledger.sandbox import Sandbox;"
        "print(Sandbox(Path(sys.argv[1])).up(['solo'], 1, overrides={'solo': {'message.max.bytes': '123456'}}))"
    )
    command = [sys.executable, "-c", starter, str(sandbox.root)]
    try:
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) for _ in range(2)]
        told = {process.communicate(timeout=120)[0].strip() for process in both}
        assert [process.returncode for process in both] == [0, 0]
        assert told == {str(sandbox.status())}
        assert sandbox.status()["solo"].brokers[0].state is BrokerState.RUNNING
        create(bootstrap(sandbox, "solo"), "it-serves")
        assert broker_setting(bootstrap(sandbox, "solo"), "message.max.bytes") == "123456"
        started = pids(sandbox)
    finally:
        assert sandbox.down()
    assert not any(processes.birth_of(pid) for pid in started if pid)
    assert list(tmp_path.iterdir()) == []
    assert not sandbox.down()
    assert sandbox.status() == {}


def test_clients_can_be_made_to_present_themselves(guarded: Guarded) -> None:
    assert guarded.sandbox.up(["solo"], 1, **guarded.shape)["solo"] == guarded.cluster
    known = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "guest"}
    guest = AdminClient(
        {
            **known,
            "bootstrap.servers": guarded.without_tls,
            "log_level": 0,
            "sasl.password": guarded.password,
        }
    )
    refused = guest.create_topics([NewTopic("hers", 1)])["hers"]
    with pytest.raises(KafkaException) as caught:
        refused.result(30)
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_three_brokers_form_one_cluster(trio: Trio) -> None:
    topic = f"safe-{uuid.uuid4().hex[:8]}"
    create(trio.servers, topic)
    assert replicas(trio.servers, topic) == [1, 2, 3]
    assert broker_setting(trio.servers, "min.insync.replicas") == "2"
    trio.kill(2)
    assert [broker.state.value for broker in trio.sandbox.status()["trio"].brokers] == [
        "running",
        "dead",
        "running",
    ]
    write(trio.servers, topic, b"two of three")
    trio.start(2)
    assert read_one(trio.servers, topic) == b"two of three"


@pytest.mark.parametrize(
    ("clusters", "brokers", "rule"),
    [
        (["east"], 2, "1 or 3 brokers"),
        ([], 1, "different cluster aliases"),
        (["east", "east"], 1, "different cluster aliases"),
        (["../east"], 1, "letters, digits"),
    ],
)
def test_requests_are_checked_first(tmp_path: Path, clusters: list[str], brokers: int, rule: str) -> None:
    with pytest.raises(UsageError, match=rule):
        Sandbox(tmp_path / "sandbox").up(clusters, brokers)
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_folder_is_neither_used_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    sandbox = Sandbox(tmp_path)
    with pytest.raises(PreconditionError, match="not a sandbox's"):
        sandbox.up(["east"], 1)
    assert not sandbox.down()
    assert (tmp_path / "thesis.txt").exists()


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that the sandbox did not start."""
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("action", ["kill", "stop", "down"])
def test_a_recycled_pid_is_never_signalled(
    tmp_path: Path, bystander: subprocess.Popen[bytes], action: str
) -> None:
    """S1: the state file names the bystander's pid, with the birth of a process that is gone."""
    sandbox = Sandbox(tmp_path / "sandbox")
    forge_state(sandbox, Process(bystander.pid, "another-boot:1"))
    assert sandbox.status()["east"].brokers[0].state is BrokerState.DEAD
    if action == "down":
        assert sandbox.down()
    else:
        getattr(sandbox, action)("east")
    time.sleep(0.2)
    assert bystander.poll() is None


def test_the_forged_state_would_kill_if_the_birth_matched(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    """Proves that the test above can fail."""
    sandbox = Sandbox(tmp_path / "sandbox")
    birth = processes.birth_of(bystander.pid)
    assert birth is not None
    forge_state(sandbox, Process(bystander.pid, birth))
    sandbox.kill("east")
    assert processes.birth_of(bystander.pid) is None


def test_a_paused_process_is_ended_by_sigterm(tmp_path: Path) -> None:
    process = processes.spawn(["/bin/sleep", "60"], tmp_path / "log", os.environ)
    try:
        assert processes.pause(process, 5.0)
        processes.end(process, signal.SIGTERM, 5.0)
        assert not processes.is_running(process)
        assert not processes.send(process, signal.SIGTERM)
    finally:
        processes.end(process, signal.SIGKILL, 5.0)


def forge_state(sandbox: Sandbox, process: Process) -> None:
    sandbox.root.mkdir()
    ports = NodePorts(node_id=1, client=1, internal=2, controller=3)
    node = replace(state.NodeRecord(ports), process=process)
    record = state.ClusterRecord("forged", (node,), ListenerSecurity())
    state.save(sandbox.root, {"east": record})


def create(servers: str, topic: str) -> None:
    """A topic of one partition, with the cluster's default replication."""
    admin = quiet_admin(servers)  # a client that is not held is closed before it answers
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)


def replicas(servers: str, topic: str) -> list[int]:
    """Where partition 0 lives; asked until the broker that answers has heard of it."""
    admin = quiet_admin(servers)
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
        if partitions:
            return sorted(partitions[0].replicas)
        time.sleep(0.1)
    pytest.fail(f"no broker knows partition 0 of {topic}")


def write(servers: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def read_one(servers: str, topic: str) -> bytes | None:
    consumer = Consumer(reader_properties(servers, "none"))
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def broker_setting(servers: str, name: str) -> str:
    resource = ConfigResource(ResourceType.BROKER, "1")
    admin = quiet_admin(servers)
    return str(admin.describe_configs([resource])[resource].result(30)[name].value)
