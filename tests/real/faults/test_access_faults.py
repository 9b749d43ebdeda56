"""TLS, SCRAM and an authorizer: the copy's own connections and the admin's, and what a denial stops."""

import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ledger.adapters import jvm
from ledger.adapters.kafka.admin import KafkaAdmin
from ledger.adapters.system import SystemClock
from ledger.config import FlowConfig, SecretReference
from ledger.errors import MirrorLedgerError, UsageError
from ledger.mirror.copy_task import CopyTask
from ledger.recording.observation import Observer, RecorderSettings, Subject
from ledger.sandbox import ListenerSecurity, Sandbox
from tests.support.copies import LIMITS, Pair, config_of
from tests.support.forwarder import forwarding
from tests.support.sources import writers

FLOW = FlowConfig(name="f", source="solo", target="other", topics=(".*",))
SECRET = "MIRROR_LEDGER_TEST_SCRAM_SECRET"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True)
class Guarded:
    """A cluster that wants TLS and SCRAM and checks rights; `plain` is its super user's way in."""

    servers: str
    plain: str
    login: Mapping[str, object]

    def pair(self) -> Pair:
        plain, servers = ({side: at for side in ("source", "target")} for at in (self.plain, self.servers))
        return Pair(plain, servers, login=self.login)

    def allow_only(self, topic: str, *operations: ACLOperation) -> None:
        """As soon as a topic has a rule, what no rule allows is denied."""
        acls = [
            ACL(
                principal="User:mirror",
                host="*",
                operation=operation,
                permission_type=ACLPermissionType.ALLOW,
                resource_pattern=ResourcePattern(ResourceType.TOPIC, topic),
            )
            for operation in operations
        ]
        client = KafkaAdminClient(bootstrap_servers=self.plain)
        try:
            client.create_acls(acls)
        finally:
            client.close()


def make_keys(folder: Path, password: str) -> tuple[Path, Path]:
    """A key store for 127.0.0.1, and its self-signed certificate as PEM."""
    store, certificate = folder / "broker.p12", folder / "ca.pem"
    keytool = shutil.which("keytool", path=str(jvm.check_java().parent)) or "keytool"
    common = ["-alias", "broker", "-keystore", str(store), "-storepass", password, "-storetype", "PKCS12"]
    names = ["-dname", "CN=broker", "-ext", "san=ip:127.0.0.1", "-ext", "bc=ca:true"]
    for arguments in (
        ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2", *names],
        ["-exportcert", "-rfc", "-file", str(certificate)],
    ):
        subprocess.run([keytool, *arguments, *common], check=True, capture_output=True)
    return store, certificate


@pytest.fixture(scope="module")
def password() -> str:
    return uuid.uuid4().hex


@pytest.fixture(scope="module")
def guarded(password: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    store, certificate = make_keys(folder, password)
    sandbox = Sandbox(folder / "sandbox")
    with ExitStack() as stack:
        stack.callback(sandbox.down)
        security = {"solo": _security(store, password)}
        cluster = sandbox.up(["solo"], 1, security=security, far=["solo"])["solo"]
        (broker,) = cluster.brokers
        assert broker.far is not None
        plain = stack.enter_context(forwarding(broker.far)).address
        _add_user(plain, password)
        login = {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "mirror",
            "sasl.password": SecretReference(env=SECRET),
            "ssl.ca.location": str(certificate),
        }
        yield Guarded(cluster.bootstrap_servers, plain, login)


def _security(store: Path, password: str) -> ListenerSecurity:
    return ListenerSecurity(
        "SASL_SSL",
        {
            "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.client.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
            "listener.name.client.ssl.keystore.location": str(store),
            "listener.name.client.ssl.keystore.password": password,
            "listener.name.client.ssl.keystore.type": "PKCS12",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        },
    )


def _add_user(servers: str, password: str) -> None:
    user = UserScramCredentialUpsertion("mirror", ScramMechanism.SCRAM_SHA_512, password)
    client = KafkaAdminClient(bootstrap_servers=servers)
    try:
        client.alter_user_scram_credentials([user])
    finally:
        client.close()


def test_records_are_copied_over_tls_with_scram(
    guarded: Guarded, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, password)
    with guarded.pair() as pair:
        pair.produce(300)
        pair.run()
        assert pair.assert_same() == 300
        with closing(KafkaAdmin("solo", pair.configs()[0], SystemClock())) as admin:
            assert pair.topics["source"] in admin.topics()


def test_a_wrong_password_is_told_and_not_tried_again(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "wrong")
    with guarded.pair() as pair:
        pair.produce(1)
        with pytest.raises(UsageError, match="refused the credentials"):
            pair.run()


def test_a_certificate_that_is_not_trusted_is_told(
    guarded: Guarded, password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, password)
    _, other = make_keys(tmp_path, password)
    config = config_of("solo", guarded.servers, {**guarded.login, "ssl.ca.location": str(other)})
    with (
        closing(KafkaAdmin("solo", config, SystemClock())) as admin,
        pytest.raises(MirrorLedgerError, match=r"TLS handshake.*verify failed"),
    ):
        admin.topics()


DENIALS = [
    pytest.param("source", (ACLOperation.DESCRIBE,), "READ", id="source-read"),
    pytest.param("target", (ACLOperation.READ,), "WRITE", id="target-write"),
    pytest.param("target", (ACLOperation.WRITE,), "READ", id="target-read"),
    pytest.param("source", (ACLOperation.ALTER_CONFIGS,), "DESCRIBE", id="source-describe"),
    pytest.param("target", (ACLOperation.ALTER_CONFIGS,), "DESCRIBE", id="target-describe"),
]


@pytest.mark.fault(78)
@pytest.mark.parametrize(("side", "rights", "missing"), DENIALS)
def test_a_denial_stops_the_partitions_of_its_topic_and_no_others(
    guarded: Guarded,
    password: str,
    side: str,
    rights: tuple[ACLOperation, ...],
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SECRET, password)
    with guarded.pair() as denied, guarded.pair() as allowed, closing(denied.network()) as network:
        for pair in (denied, allowed):
            pair.produce(50)
        guarded.allow_only(denied.topics[side], *rights)
        assignments = [pair.assignments(stop_at=pair.ends())[0] for pair in (denied, allowed)]
        results = CopyTask(assignments, network, writers(), SystemClock(), LIMITS).run(seconds=15)
        by_topic = {result.assignment.source.topic: result for result in results}
        stopped = by_topic[denied.topics["source"]]
        assert stopped.stop is not None
        assert str(stopped.stop.cause) == "denied"
        assert f"the {side} denies {missing}" in stopped.stop.message
        assert stopped.position == 0
        allowed.take([by_topic[allowed.topics["source"]]])
        assert allowed.assert_same() == 50


@pytest.mark.fault(78)
def test_a_recorder_tells_what_it_may_not_describe_and_records_the_rest(
    guarded: Guarded, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither denied settings nor a topic that is not listed any more hide the others or pass for a deletion."""
    monkeypatch.setenv(SECRET, password)
    with guarded.pair() as denied, guarded.pair() as allowed:
        guarded.allow_only(denied.topics["source"], ACLOperation.DESCRIBE)
        guarded.allow_only(denied.topics["target"], ACLOperation.ALTER_CONFIGS)
        with closing(KafkaAdmin("solo", denied.configs()[0], SystemClock())) as admin:
            settings = RecorderSettings.of_flows([FLOW])
            observer = Observer(admin, SystemClock(), settings, partitions=list)
            seen = observer.observe(frozenset({Subject.TOPICS}))
            assert seen.topics is not None
            assert allowed.topics["source"] in seen.topics
            assert denied.topics["target"] not in {**seen.topics, **seen.unread}
            assert denied.topics["source"] in seen.unread
            assert allowed.topics["source"] not in seen.unread
            assert list(observer.hidden([denied.topics["target"], "no-such-topic"])) == [
                denied.topics["target"]
            ]
