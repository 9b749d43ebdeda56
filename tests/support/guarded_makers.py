"""A file of MirrorMaker 2 with logins, carried out like those of `maker_runs`: a source behind an authority of the
house that wants certificates of clients, and a managed cluster that wants passwords.

Besides addresses, passwords of stores and places of files, three lines of the file do not stay: the class of its
operator that reports metrics, a port that this machine may not have, and the authority of the managed cluster, which is
a public one there and needs no line.

MirrorMaker begins at the ends of topics by this file, and so do we: what both have is an end of what the source has.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledger.answers.maintenance import init_ledger
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.recorders.observation import Subject
from ledger.sandbox import ListenerSecurity, Sandbox, state
from ledger.sandbox.ports import free_ports
from tests.support.clusters import servers_of
from tests.support.commands import mirror_ledger
from tests.support.following import copied, produce, values
from tests.support.guarded import PLAIN
from tests.support.key_stores import Authority, as_jks
from tests.support.maker_runs import (
    TOPICS,
    Cast,
    MakerSite,
    compared_names,
    eventually_checkpoints,
    filled,
    imported_configuration,
    maker_at_work,
    read_to_the_end,
    recorded_places,
    said_of_maker,
    topics_of,
)
from tests.support.recorded import broken_invariants
from tests.support.runs import run
from tests.support.waiting import eventually

_NAME = "managed.properties"
_CAST = Cast(
    {"kafka-1.house.example:9093,kafka-2.house.example:9093": "east"},
    {"broker.cloud.example:9092": ("west", "south")},
)
_STORES, _KEY = "of-the-stores", "not-a-secret-4 # replace before use"
"""As MirrorMaker reads the file: a comment behind a value is a part of it."""
_USERS = {"KEY-OF-THE-MIRROR": "not-a-secret-5", "w": "not-a-secret-6"}
_HERE = "listener.name.client."
_LAST = [f"last {number}" for number in range(5)]


@contextmanager
def managed_site(
    folder: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> Iterator[MakerSite]:
    house, public = Authority("house"), Authority("public")
    as_jks(folder / "stores", house.signed("mirror"), house, _STORES, _KEY)
    as_jks(folder / "public", public.signed("nobody"), public, _STORES, _STORES)
    sandbox = Sandbox(folder / "sandbox")
    cloud = _passwords(folder, public)
    try:
        clusters = sandbox.up(
            _CAST.clusters, 1, security={"east": _certificates(folder, house), "west": cloud, "south": cloud}
        )
        records = state.load(sandbox.root)
        assert records is not None
        open_ = {alias: f"127.0.0.1:{one.nodes[0].ports.internal}" for alias, one in records.items()}
        filled(open_["east"], TOPICS)
        read_to_the_end(open_["east"])
        replaced = _replaced(folder)
        yield MakerSite(_NAME, _CAST, open_, servers_of(clusters), replaced, folder, spark, capsys)
    finally:
        sandbox.down()


def _replaced(folder: Path) -> Mapping[str, str]:
    [port] = free_ports(1)
    trusted = {"location": folder / "public" / "trusted.jks", "password": _STORES, "type": "JKS"}
    return {
        "/etc/kafka/trust.jks": str(folder / "stores" / "trusted.jks"),
        "/etc/kafka/mirror.jks": str(folder / "stores" / "own.jks"),
        "not-a-secret-2": _STORES,
        "not-a-secret-3": _STORES,
        "metric.reporters = org.example.Reporter\n": "",
        "localhost:8083": f"127.0.0.1:{port}",
        "cloud.client.dns.lookup": "".join(
            f"cloud.ssl.truststore.{key} = {value}\n" for key, value in trusted.items()
        )
        + "cloud.client.dns.lookup",
    }


def _certificates(folder: Path, house: Authority) -> ListenerSecurity:
    (folder / "house.pem").write_bytes(house.signed("broker").as_pem())
    trusted = {"truststore.type": "PEM", "truststore.location": str(house.write(folder / "trusted.pem"))}
    own = {"keystore.type": "PEM", "keystore.location": str(folder / "house.pem"), "client.auth": "required"}
    return ListenerSecurity("SSL", {f"{_HERE}ssl.{key}": value for key, value in {**own, **trusted}.items()})


def _passwords(folder: Path, public: Authority) -> ListenerSecurity:
    (folder / "cloud.pem").write_bytes(public.signed("broker").as_pem())
    users = " ".join(f'user_{user}="{password}"' for user, password in _USERS.items())
    return ListenerSecurity(
        "SASL_SSL",
        {
            f"{_HERE}ssl.keystore.type": "PEM",
            f"{_HERE}ssl.keystore.location": str(folder / "cloud.pem"),
            f"{_HERE}sasl.enabled.mechanisms": "PLAIN",
            f"{_HERE}plain.sasl.jaas.config": f"{PLAIN} required {users};",
        },
    )


def assert_managed_alike(site: MakerSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are where the imported configuration refers to; whatever else it needs, it says."""
    for name, value in {
        "HOUSE_SSL_TRUSTSTORE_PASSWORD": _STORES,
        "HOUSE_SSL_KEYSTORE_PASSWORD": _STORES,
        "HOUSE_SSL_KEY_PASSWORD": _KEY,
        "CLOUD_SASL_PASSWORD": _USERS["KEY-OF-THE-MIRROR"],
        "CLOUD_SSL_TRUSTSTORE_PASSWORD": _STORES,
    }.items():
        monkeypatch.setenv(name, value)
    config = imported_configuration(site)
    eventually(lambda: _is_answered(site), "brokers that have just begun take logins in time")
    compared = compared_names(site, config)
    topics = {
        str(row["here"]): str(row["name"]) for row in compared if row["kind"] == "topic" and row["here"]
    }
    flows = [flow.name for flow in site.flows(config)]
    assert topics, "something is selected"
    with maker_at_work(site):
        _begun(site, topics)
        _written(site, topics)
        eventually(lambda: _has_last(site, "west", topics), "MirrorMaker has copied it")
        read_to_the_end(site.servers["east"])
        checkpoints = eventually_checkpoints(site, compared)
        assert topics_of(site, "west") == sorted(said_of_maker(compared, flows, by="mirror_maker"))
    init_ledger(config)
    _ours(site, with_files(config), topics)
    assert topics_of(site, "south") == topics_of(site, "west") == sorted(topics)
    for copy, topic in topics.items():
        for target in ("west", "south"):
            there, source = values(site.servers[target], copy), values(site.servers["east"], topic)
            begun = source.index(there[0])
            assert begun > 0
            assert there == source[begun : begun + len(there)], "an end of the source, without a gap"
            assert target == "west" or there[-1] == source[-1]
    assert recorded_places(site, config) == checkpoints
    assert broken_invariants(config) == {}


def _is_answered(site: MakerSite) -> bool:
    return mirror_ledger(site.capsys, "import", str(site.folder / _NAME), "--check").code in (0, 4)


def with_files(config: MirrorConfig) -> MirrorConfig:
    """The same, where secrets lie in files: Spark's processes do not have the environment of a test."""
    file = Path(config.file)

    def in_file(found: re.Match[str]) -> str:
        secret = file.with_name(found[1])
        secret.write_text(os.environ[found[1]], encoding="utf-8")
        return f'{{ file = "{secret}" }}'

    file.write_text(
        re.sub(r'\{ env = "(\w+)" \}', in_file, file.read_text(encoding="utf-8")), encoding="utf-8"
    )
    return load_config(file)


def _begun(site: MakerSite, topics: Mapping[str, str]) -> None:
    """MirrorMaker reads from the end that it finds: something is written until it is seen to copy."""
    number = 0

    def copies() -> bool:
        nonlocal number
        number += 1
        for topic in topics.values():
            produce(site.servers["east"], topic, f"try {number}")
        return all(copied(site.servers["west"], copy) for copy in topics)

    eventually(copies, "MirrorMaker copies")


def _written(site: MakerSite, topics: Mapping[str, str]) -> None:
    for topic in topics.values():
        produce(site.servers["east"], topic, *_LAST)


def _has_last(site: MakerSite, alias: str, topics: Mapping[str, str]) -> bool:
    wanted = [value.encode() for value in _LAST]
    return all(copied(site.servers[alias], copy)[-len(wanted) :] == wanted for copy in topics)


def _ours(site: MakerSite, config: MirrorConfig, topics: Mapping[str, str]) -> None:
    """Begins at the end, then has what is written afterwards."""
    for flow in site.flows(config):
        assert not run(config, site.spark, flow.name, recorded=frozenset(Subject)).stopped
    _written(site, topics)
    for flow in site.flows(config):
        assert not run(config, site.spark, flow.name, recorded=frozenset(Subject)).stopped
    assert _has_last(site, "south", topics)
