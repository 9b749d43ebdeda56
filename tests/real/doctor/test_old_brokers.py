"""A cluster whose topics have no ids: refused by each command that would begin something there, before anything is."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.sandbox import SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.support.clusters import servers_of
from tests.support.commands import command
from tests.support.config_files import write_config
from tests.support.releases import WITH_ZOOKEEPER, old_clusters
from tests.support.runs import FLOW

BEFORE_TOPIC_IDS = {"inter.broker.protocol.version": "2.7"}
SENTENCE = (
    "cluster east gives no topic ids, without which a recreated topic cannot be distinguished from the one before it: "
    "brokers of Kafka 2.8 or later are needed"
)

pytestmark = pytest.mark.xdist_group("old_brokers")


@pytest.fixture(scope="module")
def without_ids(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    folder = tmp_path_factory.mktemp("old")
    with old_clusters(folder, {"east": WITH_ZOOKEEPER}, {"east": BEFORE_TOPIC_IDS}) as sandbox:
        east = sandbox.status()["east"]
        create_topics(east.bootstrap_servers, ["orders"], partitions=1)
        yield east


@pytest.fixture
def config(
    without_ids: SandboxCluster, broker_pair: Mapping[str, SandboxCluster], tmp_path: Path
) -> MirrorConfig:
    servers = servers_of({"east": without_ids, "west": broker_pair["west"]})
    config = write_config(tmp_path, servers, {FLOW: 'topics = ["orders"]'})
    init_ledger(config)
    return config


@pytest.mark.parametrize(
    "words",
    [("run", FLOW, "--until-caught-up"), ("record", "east"), ("adopt", FLOW), ("doctor", FLOW)],
    ids=lambda words: words[0],
)
def test_topics_without_ids_are_refused_at_once(
    config: MirrorConfig, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    done = command(capsys, config, *words)
    assert done.code == (4 if words[0] == "doctor" else 5)
    assert SENTENCE in " ".join((done.out if words[0] == "doctor" else done.err).split())
    assert command(capsys, config, "sql", "select writer from writers", "-o", "csv").out.splitlines() == [
        "writer"
    ]
