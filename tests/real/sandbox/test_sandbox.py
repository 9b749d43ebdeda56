"""The sandbox against its invariants S1-S4, with real brokers."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from ledger.cli.sandbox import sandbox as sandbox_command
from ledger.errors import PreconditionError, UsageError
from ledger.sandbox import BrokerState, ListenerSecurity, Sandbox, processes, state
from ledger.sandbox.processes import Process


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


def test_configuration_names_clusters_and_flow(pair: Sandbox) -> None:
    written = tomllib.loads(pair.configuration.read_text())
    assert written == {
        "ledger": {"path": str(pair.root / "ledger")},
        "clusters": {alias: {"bootstrap_servers": bootstrap(pair, alias)} for alias in ("east", "west")},
        "flows": {
            "east-to-west": {
                "source": "east",
                "target": "west",
                "topics": [".*"],
                "groups": [".*"],
                "topic_naming": "prefix",
            }
        },
    }


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


def test_up_starts_what_is_dead_and_leaves_the_rest(pair: Sandbox) -> None:
    before = pair.status()
    pair.kill("west")
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


def test_signals_to_the_dead_or_unknown_are_refused(pair: Sandbox) -> None:
    pair.kill("west")
    try:
        with pytest.raises(PreconditionError, match="no signal was sent"):
            pair.pause("west")
    finally:
        pair.start("west")
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
    assert [line.split()[0] for line in again.stdout.splitlines()] == ["cluster", "east", "west"]


def test_overrides_reach_the_broker_and_down_leaves_nothing(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "sandbox")
    try:
        cluster = sandbox.up(["solo"], 1, overrides={"solo": {"message.max.bytes": "123456"}})["solo"]
        assert broker_setting(cluster.bootstrap_servers, "message.max.bytes") == "123456"
        started = pids(sandbox)
    finally:
        assert sandbox.down()
    assert not any(processes.birth_of(pid) for pid in started if pid)
    assert list(tmp_path.iterdir()) == []
    assert not sandbox.down()
    assert sandbox.status() == {}


def test_brokers_survive_their_starter(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "sandbox")
    starter = (
        "import sys; from pathlib import Path; from ledger.sandbox import Sandbox;"
        "Sandbox(Path(sys.argv[1])).up(['solo'], 1)"
    )
    try:
        subprocess.run([sys.executable, "-c", starter, str(sandbox.root)], check=True, timeout=120)
        assert sandbox.status()["solo"].brokers[0].state is BrokerState.RUNNING
        create(bootstrap(sandbox, "solo"), "it-serves")
    finally:
        sandbox.down()
    assert not sandbox.root.exists()


def test_two_starters_agree(tmp_path: Path) -> None:
    """S4: the second one waits for the first, and finds its clusters."""
    sandbox = Sandbox(tmp_path / "sandbox")
    try:
        with ThreadPoolExecutor(max_workers=2) as pool:
            first, second = [pool.submit(sandbox.up, ["solo"], 1) for _ in range(2)]
        assert first.result() == second.result() == sandbox.status()
    finally:
        sandbox.down()


def test_clients_can_be_made_to_present_themselves(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "sandbox")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    security = ListenerSecurity(
        "SASL_PLAINTEXT",
        {
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": f'{module} required user_ada="pw";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",  # brokers among themselves
        },
    )
    try:
        cluster = sandbox.up(["solo"], 1, security={"solo": security})["solo"]
        assert sandbox.up(["solo"], 1, security={"solo": security})["solo"] == cluster
        known = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ada"}
        ada = AdminClient(
            {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **known, "sasl.password": "pw"}
        )
        refused = ada.create_topics([NewTopic("hers", 1)])["hers"]
        with pytest.raises(KafkaException) as caught:
            refused.result(30)
        assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    finally:
        sandbox.down()


def test_three_brokers_form_one_cluster(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path / "sandbox")
    try:
        cluster = sandbox.up(["trio"], brokers=3)["trio"]
        create(cluster.bootstrap_servers, "safe")
        assert replicas(cluster.bootstrap_servers, "safe") == [1, 2, 3]
        assert broker_setting(cluster.bootstrap_servers, "min.insync.replicas") == "2"
        sandbox.kill("trio", 2)
        assert [broker.state.value for broker in sandbox.status()["trio"].brokers] == [
            "running",
            "dead",
            "running",
        ]
        write(cluster.bootstrap_servers, "safe", b"two of three")
        sandbox.start("trio", 2)
        assert read_one(cluster.bootstrap_servers, "safe") == b"two of three"
    finally:
        sandbox.down()


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
    ports = state.NodePorts(node_id=1, client=1, internal=2, controller=3)
    node = replace(state.NodeRecord(ports), process=process)
    record = state.ClusterRecord("forged", (node,), state.ListenerSecurity())
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
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "log_level": 0})
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
    return admin.describe_configs([resource])[resource].result(30)[name].value
