"""Brokers that want to know who their clients are, and allow nothing that no rule allows."""

import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ledger import jvm
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.config.values import ClusterConfig, SecretReference
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import ListenerSecurity, Sandbox, SandboxCluster, state
from tests.support.config_files import write_config
from tests.support.forwarder import forwarding

# -- One broker ------------------------------------------------------------------------------------
# Three ways in: over TLS, with SCRAM or PLAIN; without TLS, with PLAIN; and an open one, on which everybody is
# the super user, for what tests prepare. Suites share it: each test has a user or topics of its own.

SECRET = "MIRROR_LEDGER_TEST_SECRET"
"""The environment variable that holds everybody's password."""
PLAIN_USERS = ("mirror", "ada", "root", "guest", "examiner")
"""Users of PLAIN. `root` is a super user; the others may do nothing."""
_ALIAS = "solo"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"

Login = dict[str, str | SecretReference]


def lines_of(login: Login) -> str:
    """How somebody presents himself, as lines of a cluster's configuration."""
    return "".join(f"{name} = {_toml(value)}\n" for name, value in login.items())


def _toml(value: str | SecretReference) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f'{{ env = "{value.env}" }}' if value.env else f'{{ file = "{value.file}" }}'


def plain_login(user: str, password: SecretReference) -> Login:
    """By a password without TLS."""
    return {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


def login_by_file(folder: Path, user: str, password: str) -> str:
    """Lines for a driver's processes, which do not have this process's environment."""
    (folder / "password").write_text(password)
    return lines_of(plain_login(user, SecretReference(file="password")))


class _Administered:
    """`open`: where everybody is the super user."""

    open: str

    @contextmanager
    def administered(self) -> Iterator[KafkaAdminClient]:
        """As the super user."""
        client = KafkaAdminClient(bootstrap_servers=self.open)
        try:
            yield client
        finally:
            client.close()


@dataclass(frozen=True)
class Guarded(_Administered):
    """The cluster `solo`: its addresses, what it was made with, and who may do what."""

    sandbox: Sandbox
    cluster: SandboxCluster
    shape: Mapping[str, Any]
    over_tls: str
    without_tls: str
    open: str
    certificate: Path
    password: str

    def scram_login(self, user: str) -> Login:
        """How a user that `new_user` made presents itself over TLS."""
        return {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": SecretReference(env=SECRET),
            "ssl.ca.location": str(self.certificate),
        }

    def plain_login(self, user: str) -> Login:
        """How one of `PLAIN_USERS` presents itself without TLS."""
        return plain_login(user, SecretReference(env=SECRET))

    def new_user(self) -> str:
        """A user of SCRAM that may do nothing yet."""
        name = f"user-{uuid.uuid4().hex[:8]}"
        credential = UserScramCredentialUpsertion(name, ScramMechanism.SCRAM_SHA_512, self.password)
        with self.administered() as client:
            client.alter_user_scram_credentials([credential])
        return name

    def allow(
        self,
        user: str,
        name: str,
        *operations: ACLOperation,
        kind: ResourceType = ResourceType.TOPIC,
        is_prefix: bool = False,
    ) -> None:
        """Let a user do something to a resource, or to all whose name begins so."""
        pattern_type = ACLResourcePatternType.PREFIXED if is_prefix else ACLResourcePatternType.LITERAL
        acls = [
            ACL(
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission_type=ACLPermissionType.ALLOW,
                resource_pattern=ResourcePattern(kind, name, pattern_type),
            )
            for operation in operations
        ]
        with self.administered() as client:
            client.create_acls(acls)

    @contextmanager
    def writing_nowhere(self, user: str) -> Iterator[None]:
        """Within, the user may write to no topic, whatever everybody (`User:*`) is allowed on some."""
        pattern = ResourcePattern(ResourceType.TOPIC, "*", ACLResourcePatternType.LITERAL)
        denied = ACL(f"User:{user}", "*", ACLOperation.WRITE, ACLPermissionType.DENY, pattern)
        with self.administered() as client:
            client.create_acls([denied])
        try:
            yield
        finally:
            self.forbid(user, "*")

    def allow_only(
        self,
        user: str,
        name: str,
        *operations: ACLOperation,
        kind: ResourceType = ResourceType.TOPIC,
    ) -> None:
        """Whatever the user was allowed on the resource of that name, it may do nothing else now."""
        self.forbid(user, name, kind=kind)
        self.allow(user, name, *operations, kind=kind)

    def forbid(self, user: str, name: str, *, kind: ResourceType = ResourceType.TOPIC) -> None:
        """Take away whatever the user was allowed on the resource of that name."""
        everything = ACLFilter(
            principal=f"User:{user}",
            host="*",
            operation=ACLOperation.ANY,
            permission_type=ACLPermissionType.ANY,
            resource_pattern=ResourcePatternFilter(kind, name, ACLResourcePatternType.LITERAL),
        )
        with self.administered() as client:
            client.delete_acls([everything])


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The one guarded cluster of the run."""
    folder, password = tmp_path_factory.mktemp("guarded"), uuid.uuid4().hex
    store, certificate = make_keys(folder, password)
    sandbox = Sandbox(folder / "sandbox")
    shape: dict[str, Any] = {
        "security": {_ALIAS: _security(store, password)},
        "overrides": {_ALIAS: _without_tls_too(password)},
        "far": [_ALIAS],
    }
    with ExitStack() as stack:
        stack.callback(sandbox.down)
        stack.enter_context(pytest.MonkeyPatch.context()).setenv(SECRET, password)
        cluster = sandbox.up([_ALIAS], 1, **shape)[_ALIAS]
        (broker,) = cluster.brokers
        assert broker.far is not None
        records = state.load(sandbox.root)
        assert records is not None
        yield Guarded(
            sandbox=sandbox,
            cluster=cluster,
            shape=shape,
            over_tls=cluster.bootstrap_servers,
            without_tls=stack.enter_context(forwarding(broker.far)).address,
            open=f"127.0.0.1:{records[_ALIAS].nodes[0].ports.internal}",
            certificate=certificate,
            password=password,
        )


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


def _security(store: Path, password: str) -> ListenerSecurity:
    return ListenerSecurity(
        "SASL_SSL",
        {
            "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.client.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
            "listener.name.client.ssl.keystore.location": str(store),
            "listener.name.client.ssl.keystore.password": password,
            "listener.name.client.ssl.keystore.type": "PKCS12",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:root",
        },
    )


def _without_tls_too(password: str) -> dict[str, str]:
    """The far listener asks for a password instead of standing open."""
    users = " ".join(f'user_{user}="{password}"' for user in PLAIN_USERS)
    return {
        "listener.security.protocol.map": (
            "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:SASL_PLAINTEXT"
        ),
        "listener.name.far.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.far.plain.sasl.jaas.config": f"{PLAIN} required {users};",
    }


# -- Clusters east and west ------------------------------------------------------------------------
# Nobody but `root` is a super user: the mirror, who changes rules, and applications are principals of their own. What
# tests prepare, and read back, goes over a listener that stands open, with the library's own administration client.

PAIR_SECRET = "MIRROR_LEDGER_PAIR_SECRET"
"""The environment variable that holds everybody's password."""
MIRROR, ADMINISTRATOR, SHOP, BILLING = "mirror", "admin", "shop", "billing"
_USERS = ("root", MIRROR, ADMINISTRATOR, SHOP, BILLING)
_CLUSTER = "kafka-cluster"

Rule = tuple[ResourceType, str, ACLOperation]
"""What somebody is allowed: a resource, its name (ending in `*`: all that begin so), and what may be done with it."""


@dataclass(frozen=True)
class GuardedCluster(_Administered):
    """`servers`: where users present themselves; `open`: where everybody is the super user."""

    alias: str
    servers: str
    open: str
    password: str

    def login(self, user: str) -> dict[str, str]:
        """Client properties of a user."""
        return {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self.password,
        }

    def allow(self, user: str, *rules: Rule) -> None:
        with self.administered() as client:
            client.create_acls([_acl(user, rule) for rule in rules])

    def forbid(self, user: str, *rules: Rule) -> None:
        """Take away exactly these."""
        with self.administered() as client:
            for rule in rules:
                client.delete_acls([_acl(user, rule)])

    def open_again(self, topic: str) -> None:
        """Take away what denies somebody to write to it, as Kafka's own tools do."""
        with self.administered() as client:
            named = ResourcePatternFilter(ResourceType.TOPIC, topic, ACLResourcePatternType.LITERAL)
            denied = ACLFilter(None, "*", ACLOperation.WRITE, ACLPermissionType.DENY, named)
            client.delete_acls([denied])

    def create(self, topic: str, own: Mapping[str, str]) -> None:
        """A topic of two partitions with settings of its own."""
        with self.read() as admin:
            admin.create_topic(topic, partitions=2, replication_factor=1, configuration=own)

    @contextmanager
    def read(self) -> Iterator[KafkaAdmin]:
        """As the super user too."""
        cluster = ClusterConfig(name=self.alias, bootstrap_servers=self.open)
        with closing(KafkaAdmin(self.alias, cluster, SystemClock())) as admin:
            yield admin

    def rules(self) -> frozenset[str]:
        """All that there are, as the brokers say them."""
        everything = ACLFilter(
            principal=None,
            host=None,
            operation=ACLOperation.ANY,
            permission_type=ACLPermissionType.ANY,
            resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
        )
        with self.administered() as client:
            found, error = client.describe_acls(everything)
        assert error.errno == 0
        return frozenset(map(str, found))


def _acl(user: str, rule: Rule) -> ACL:
    kind, name, operation = rule
    is_prefix = len(name) > 1 and name.endswith("*")
    pattern = ACLResourcePatternType.PREFIXED if is_prefix else ACLResourcePatternType.LITERAL
    return ACL(
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(kind, name.rstrip("*") if is_prefix else name, pattern),
    )


def on_topic(name: str, *operations: ACLOperation) -> list[Rule]:
    return [(ResourceType.TOPIC, name, operation) for operation in operations]


def on_group(name: str, *operations: ACLOperation) -> list[Rule]:
    return [(ResourceType.GROUP, name, operation) for operation in operations]


def on_cluster(*operations: ACLOperation) -> list[Rule]:
    return [(ResourceType.CLUSTER, _CLUSTER, operation) for operation in operations]


GuardedPair = Mapping[str, GuardedCluster]


@pytest.fixture(scope="session")
def guarded_pair_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("guarded-pair"))
    try:
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture(scope="session")
def guarded_pair(guarded_pair_sandbox: Sandbox) -> Iterator[GuardedPair]:
    """One broker each; use topics and groups of your own."""
    password = uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(PAIR_SECRET, password)
        yield guarded_clusters(guarded_pair_sandbox, password)


def guarded_clusters(sandbox: Sandbox, password: str) -> GuardedPair:
    """Both, brought up."""
    aliases = ("east", "west")
    clusters = sandbox.up(aliases, 1, security=dict.fromkeys(aliases, _pair_security(password)))
    records = state.load(sandbox.root)
    assert records is not None
    return {
        alias: GuardedCluster(
            alias,
            clusters[alias].bootstrap_servers,
            f"127.0.0.1:{records[alias].nodes[0].ports.internal}",
            password,
        )
        for alias in aliases
    }


def _pair_security(password: str) -> ListenerSecurity:
    users = " ".join(f'user_{user}="{password}"' for user in _USERS)
    return ListenerSecurity(
        "SASL_PLAINTEXT",
        {
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": f"{PLAIN} required {users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:root",
        },
    )


def write_guarded_config(folder: Path, pair: GuardedPair, flows: Mapping[str, str]) -> MirrorConfig:
    """Flows between clusters at which the mirror and who changes rules are principals of their own."""
    login = login_by_file(folder, MIRROR, pair["east"].password)
    properties = {
        alias: f'mirror_principal = "User:{MIRROR}"\n{login}[clusters.{alias}.admin]\n'
        f'sasl.username = "{ADMINISTRATOR}"\n'
        for alias in pair
    }
    servers = {alias: cluster.servers for alias, cluster in pair.items()}
    return write_config(folder, servers, flows, properties=properties)
