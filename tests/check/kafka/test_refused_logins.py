"""Brokers that refuse a login which is right, now and then or for good: what is asked again, and what is said."""

import time
from collections.abc import Callable
from contextlib import closing

import pytest
from tenacity import stop_after_attempt, wait_random_exponential

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.doctor.checks import OF_TROUBLE
from ledger.errors import ClusterUnavailableError, LoginRefusedError, PreconditionError, Trouble
from ledger.facts.syncs import TopicPartition
from ledger.kafka import connection
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.connection import Address
from ledger.kafka.copying import answer_to
from ledger.kafka.network import KafkaNetwork
from ledger.kafka.reach import KafkaReach
from ledger.kafka.requests import FetchItem
from tests.support.small_brokers import CLUSTER_ID, SmallBroker, small_broker

WORDS = "[saslErr]: Too many connects"
AT = TopicPartition("t", "AAAAAAAAAAAAAAAAAAAAAQ", 0)


def config_of(broker: SmallBroker) -> ClusterConfig:
    login = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "mirror",
        "sasl.password": "right",
    }
    return ClusterConfig(name="east", bootstrap_servers=broker.address, properties=login)


def admin_of(broker: SmallBroker, timeout_s: float = 9.0) -> closing[KafkaAdmin]:
    return closing(KafkaAdmin("east", config_of(broker), SystemClock(), timeout_s=timeout_s))


def each(number: int) -> Callable[[int], str | None]:
    """What a door says that refuses each so-and-so-many-th login."""
    return lambda login: WORDS if login % number == 0 else None


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the seconds that a login is tried again for, in less of them."""
    monkeypatch.setattr(connection, "_RETRY_S", 0.01)
    retries = connection._LOGIN_RETRIES.copy(
        stop=stop_after_attempt(4), wait=wait_random_exponential(multiplier=0.01)
    )
    monkeypatch.setattr(connection, "_LOGIN_RETRIES", retries)
    monkeypatch.setattr(connection, "_logged_in", set())


@pytest.mark.parametrize("number", [2, 3])
def test_a_login_that_is_refused_now_and_then_keeps_nobody_out(number: int) -> None:
    """Each connection of administration is made again, whichever of its logins was refused."""
    with small_broker(refuses=each(number)) as broker, admin_of(broker) as admin:
        for _ in range(5):
            assert admin.cluster_id() == CLUSTER_ID
            admin.close()
        assert broker.logins >= 15, "a look, a first connection and one to the broker itself each time"


def test_what_a_broker_refuses_for_good_ends_a_command_with_its_words() -> None:
    with small_broker(refuses=each(1)) as broker, admin_of(broker) as admin:
        began = time.monotonic()
        with pytest.raises(PreconditionError, match="Too many connects") as refused:
            admin.cluster_id()
        assert refused.value.exit_code == 5
        assert refused.value.trouble is Trouble.CREDENTIALS
        assert broker.logins == 4
        with pytest.raises(PreconditionError, match="Too many connects"):
            admin.topics()
        assert broker.logins == 8, "each call tries again before it gives up"
        assert time.monotonic() - began < 3
    assert "wait" in OF_TROUBLE[Trouble.CREDENTIALS], "the password alone need not be wrong"


def test_a_login_that_was_accepted_before_is_a_cluster_that_is_away() -> None:
    """Whoever waits for a cluster waits for it, and hears why."""
    open_until = 3
    with (
        small_broker(refuses=lambda login: WORDS if login > open_until else None) as broker,
        admin_of(broker) as admin,
    ):
        assert admin.cluster_id() == CLUSTER_ID
        admin.close()
        with pytest.raises(ClusterUnavailableError, match="Too many connects") as away:
            admin.cluster_id()
        assert away.value.trouble is Trouble.CREDENTIALS
        open_until = broker.logins + 100
        assert admin.cluster_id() == CLUSTER_ID


def test_a_copy_waits_for_a_broker_that_refuses_logins_as_for_one_that_is_away() -> None:
    """No error leaves the link: who leads is asked again, and a fetch is answered with the reason."""
    refused = True
    with small_broker(refuses=lambda _login: WORDS if refused else None) as broker:
        config = config_of(broker)
        with closing(KafkaNetwork(config, config, request_timeout_s=5.0)) as network:
            with pytest.raises(ClusterUnavailableError, match="Too many connects"):
                network.source.refresh([AT.topic])
            refused = False
            network.source.refresh([AT.topic])
            refused = True
            ticket = network.source.fetch(
                1, [FetchItem(AT, 0, 1000)], committed=True, max_wait_ms=0, max_bytes=1000
            )
            assert WORDS in str(answer_to(ticket, network).failure)


def test_a_look_at_a_cluster_says_who_refuses() -> None:
    with (
        small_broker(refuses=each(1)) as broker,
        closing(KafkaReach(config_of(broker))) as reach,
        pytest.raises(ClusterUnavailableError, match="Too many connects"),
    ):
        reach.leaderless([("t", 0)])


def test_each_login_shows_the_password_that_is_configured_by_then() -> None:
    with small_broker(refuses=each(2)) as broker:
        properties = {name: str(value) for name, value in config_of(broker).properties.items()}
        address = Address("127.0.0.1", broker.port)
        for _ in range(3):
            connection.BrokerConnection(address, properties, timeout_s=3).close()
        assert set(broker.passwords) == {b"right"}
        broker.refuses = each(1)
        with pytest.raises(LoginRefusedError, match="Too many connects"):
            connection.BrokerConnection(address, properties, timeout_s=3)
