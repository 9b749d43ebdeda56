"""Bad input: a clear message on stderr, the documented exit code, nothing written, nothing on stdout."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ledger.config import CONFIG_VARIABLE
from ledger.sandbox import SandboxCluster
from tests.support.flows import FaultFlow, make_flow, produce, run_command

CONFIG = """
[ledger]
path = "{ledger}"
[clusters.east]
bootstrap_servers = "127.0.0.1:{port}"
[clusters.west]
bootstrap_servers = "127.0.0.1:{port}"
[flows.east-to-west]
source = "east"
target = "west"
topics = [".*"]
"""


@pytest.fixture
def dead_port() -> int:
    """A loopback port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def config_file(tmp_path: Path, dead_port: int) -> Path:
    file = tmp_path / "mirror.toml"
    file.write_text(CONFIG.format(ledger=tmp_path / "ledger", port=dead_port), encoding="utf-8")
    return file


@pytest.fixture
def ledger(config_file: Path) -> Path:
    assert run_command("--config", str(config_file), "init").returncode == 0
    return config_file.parent / "ledger"


def versions(ledger: Path) -> dict[str, int]:
    """Commits per table."""
    return {log.parent.name: len(list(log.glob("*.json"))) for log in ledger.glob("*/_delta_log")}


def refused(*arguments: str, code: int) -> str:
    """The message of a command that must fail with `code` and print no data."""
    done = run_command(*arguments)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def test_no_configuration_says_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    message = refused("status", code=2)
    assert "--config" in message
    assert CONFIG_VARIABLE in message


def test_a_malformed_configuration_lists_every_problem_with_file_and_key(tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(
        '[ledger]\n[clusters.east]\nbootstrap_servers = "nowhere"\n'
        '[flows.f]\nsource = "east"\ntarget = "wset"\ntopics = ["("]\ncolour = 1\n',
        encoding="utf-8",
    )
    message = refused("--config", str(file), "init", code=2)
    for part in (
        "ledger",
        "clusters.east.bootstrap_servers",
        "flows.f.target",
        "flows.f.topics",
        "flows.f.colour",
    ):
        assert part in message
    assert message.count(str(file)) >= 5
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "nope"),
        ("stop", "nope"),
        ("status", "nope"),
        ("pause", "nope"),
        ("offsets", "translate", "--flow", "nope"),
        ("query", "replication_lag", "--param", "flow=nope"),
    ],
)
def test_an_unknown_flow_is_named_with_those_that_exist(
    config_file: Path, ledger: Path, arguments: tuple[str, ...]
) -> None:
    before = versions(ledger)
    message = refused("--config", str(config_file), *arguments, code=2)
    assert "nope" in message
    assert versions(ledger) == before


def test_an_unknown_query_or_parameter_is_refused(config_file: Path, ledger: Path) -> None:
    config = ("--config", str(config_file))
    assert "offset_translation" in refused(*config, "query", "nope", code=2)
    assert "flow" in refused(*config, "query", "replication_lag", code=2)
    assert "colour" in refused(*config, "query", "replication_lag", "--param", "colour=red", code=2)
    assert "KEY=VALUE" in refused(*config, "query", "replication_lag", "--param", "flow", code=2)


def test_an_unreachable_broker_is_named_and_nothing_is_written(
    config_file: Path, ledger: Path, dead_port: int
) -> None:
    before = versions(ledger)
    message = refused("--config", str(config_file), "run", "east-to-west", "--until-caught-up", code=1)
    assert str(dead_port) in message
    assert versions(ledger) == before


def test_a_path_that_is_no_ledger_is_refused(config_file: Path) -> None:
    for arguments in (("status",), ("run", "east-to-west"), ("stop", "east-to-west")):
        assert "is not a ledger" in refused("--config", str(config_file), *arguments, code=2)
    assert not (config_file.parent / "ledger").exists()


@pytest.mark.parametrize(
    ("as_of", "telling"),
    [
        ("2001-01-01T00:00:00Z", "the ledger begins at"),
        ("2001-01-01T00:00:00", "offset"),
        ("yesterday", "no cut token"),
        ("v1.offset_syncs=99999", "cut"),
    ],
)
def test_a_cut_that_does_not_exist_is_refused(
    config_file: Path, ledger: Path, as_of: str, telling: str
) -> None:
    before = versions(ledger)
    message = refused("--config", str(config_file), "status", "--as-of", as_of, code=2)
    assert telling in message
    assert versions(ledger) == before


def test_half_an_offset_is_refused(config_file: Path, ledger: Path) -> None:
    arguments = ("offsets", "translate", "--flow", "east-to-west", "--topic", "orders")
    assert "--partition" in refused("--config", str(config_file), *arguments, code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("offsets", "translate", "--flow", "east-to-west"),
        ("query", "replication_lag", "--param", "flow=east-to-west"),
    ],
)
def test_a_flow_that_never_ran_has_no_answer(
    config_file: Path, ledger: Path, arguments: tuple[str, ...]
) -> None:
    assert "has never run" in refused("--config", str(config_file), *arguments, code=5)


@pytest.fixture
def foreign_flow(broker_pair: Mapping[str, SandboxCluster], tmp_path: Path) -> Iterator[FaultFlow]:
    """A flow with records to copy, whose target topic somebody else has written to."""
    with make_flow(broker_pair, tmp_path, "foreign") as flow:
        produce(flow, 300)
        flow.admin("west").create_topic(
            flow.target_topic, partitions=3, replication_factor=1, configuration={}
        )
        producer = Producer({"bootstrap.servers": broker_pair["west"].bootstrap_servers})
        for partition in range(3):
            producer.produce(flow.target_topic, b"not the mirror's", partition=partition)
        assert producer.flush(30) == 0
        yield flow


@pytest.mark.fault(27)
def test_a_foreign_writer_on_an_exclusive_target_stops_the_partitions(foreign_flow: FaultFlow) -> None:
    driver = foreign_flow.start("--until-caught-up")
    try:
        assert driver.wait() == 4
    finally:
        driver.end()
    assert "was written by producer id" in foreign_flow.log.read_text(encoding="utf-8")
    assert foreign_flow.target_records() == 3, "nothing was written after the foreign records"
    assert foreign_flow.offset_syncs() == 3, "where each partition began, and nothing else"
    stopped = foreign_flow.query("flow_status", flow="flow")
    assert {row["status"] for row in stopped} == {"stopped"}
    assert {row["stop_cause"] for row in stopped} == {"foreign_write"}
