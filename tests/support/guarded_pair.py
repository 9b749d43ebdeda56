"""Clusters `east` and `west` that want to know who their clients are, and allow nothing that no rule allows.

Nobody but `root` is a super user: the mirror, who changes rules, and applications are principals of their own. What
tests prepare, and read back, goes over a listener that stands open, with the library's own administration client.
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

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
)

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import ListenerSecurity, Sandbox, state

SECRET = "MIRROR_LEDGER_PAIR_SECRET"
"""The environment variable that holds everybody's password."""
MIRROR, ADMINISTRATOR, SHOP, BILLING = "mirror", "admin", "shop", "billing"
_USERS = ("root", MIRROR, ADMINISTRATOR, SHOP, BILLING)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_CLUSTER = "kafka-cluster"

Rule = tuple[ResourceType, str, ACLOperation]
"""What somebody is allowed: a resource, its name (ending in `*`: all that begin so), and what may be done with it."""


@dataclass(frozen=True)
class GuardedCluster:
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

    @contextmanager
    def administered(self) -> Iterator[KafkaAdminClient]:
        """As the super user."""
        client = KafkaAdminClient(bootstrap_servers=self.open)
        try:
            yield client
        finally:
            client.close()

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
def guarded_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedPair]:
    """One broker each; use topics and groups of your own."""
    sandbox, password = Sandbox(tmp_path_factory.mktemp("guarded-pair")), uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(SECRET, password)
        try:
            yield guarded_clusters(sandbox, password)
        finally:
            sandbox.down()


def guarded_clusters(sandbox: Sandbox, password: str) -> GuardedPair:
    """Both, brought up."""
    aliases = ("east", "west")
    clusters = sandbox.up(aliases, 1, security=dict.fromkeys(aliases, _security(password)))
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


def _security(password: str) -> ListenerSecurity:
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
