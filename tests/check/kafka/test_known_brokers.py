"""A cluster whose configured address is gone: its brokers are found where the ledger has them, and no other cluster."""

from collections.abc import Sequence
from contextlib import closing

import pytest

from ledger.clock import SystemClock
from ledger.config.values import ClusterConfig
from ledger.errors import ClusterUnavailableError, SetupError
from ledger.kafka.admin import KafkaAdmin
from tests.support.small_brokers import CLUSTER_ID, SmallBroker, small_broker


def gone() -> str:
    """An address at which nobody listens any more."""
    with small_broker() as broker:
        return broker.address


def admin_of(bootstrap: str, cluster_id: str | None, *seen: Sequence[str]) -> closing[KafkaAdmin]:
    """With what the ledger has of the brokers, each time that they were seen."""
    admin = KafkaAdmin(
        "east", ClusterConfig(name="east", bootstrap_servers=bootstrap), SystemClock(), timeout_s=5
    )
    admin.connection.known = lambda: (cluster_id, seen)
    return closing(admin)


def at(*brokers: SmallBroker, protocol: str = "PLAINTEXT") -> list[str]:
    return [f"{protocol}://{broker.address}" for broker in brokers]


def test_brokers_that_the_ledger_has_are_tried_where_no_configured_address_answers() -> None:
    with small_broker() as former, small_broker() as broker:
        with admin_of(gone(), CLUSTER_ID, at(former), at(broker)) as admin:
            assert admin.cluster_id() == CLUSTER_ID
            assert admin.brokers() == at(broker)
            assert broker.address in admin.connection.reached.bootstrap_servers, "tasks are told as well"
        with admin_of(former.address, CLUSTER_ID, at(broker)) as admin:
            assert admin.cluster_id() == CLUSTER_ID
            assert admin.brokers() == at(former), "what is configured comes first"


def test_another_cluster_or_listener_at_such_an_address_is_left_alone() -> None:
    with small_broker(cluster_id="another") as other, admin_of(gone(), CLUSTER_ID, at(other)) as admin:
        with pytest.raises(ClusterUnavailableError, match="cluster another is there now") as refused:
            admin.cluster_id()
        assert other.address in str(refused.value)
    with small_broker() as broker, admin_of(gone(), CLUSTER_ID, at(broker, protocol="SASL_SSL")) as admin:
        with pytest.raises(ClusterUnavailableError, match="cannot be connected"):
            admin.cluster_id()
        assert broker.logins == 0


def test_nothing_is_sent_to_an_address_of_the_ledger_while_a_configured_one_answers() -> None:
    with small_broker() as broker, small_broker() as known, admin_of(broker.address, None) as admin:
        admin.connection.known = lambda: pytest.fail("the ledger was asked")
        assert admin.cluster_id() == CLUSTER_ID
        assert known.logins == 0


def test_where_the_ledger_cannot_be_read_the_addresses_are_what_is_wrong() -> None:
    def unread() -> tuple[None, list[list[str]]]:
        raise SetupError("no ledger")

    address = gone()
    with admin_of(address, None) as admin:
        admin.connection.known = unread
        with pytest.raises(ClusterUnavailableError, match=f": {address} cannot be connected") as refused:
            admin.cluster_id()
    assert str(refused.value).count(address) == 2, "as what was configured, and as what is wrong"
