"""Fixtures of copies without Spark: between the shared brokers, directly or over bad lines."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from ledger.sandbox import SandboxCluster
from tests.support.copies import Pair
from tests.support.forwarder import Forwarder, forwarding

SIDES = {"source": "east", "target": "west"}


@pytest.fixture
def lines(broker_pair: Mapping[str, SandboxCluster]) -> Iterator[dict[str, Forwarder]]:
    """A forwarder before the source's and one before the target's broker, by side."""
    with ExitStack() as stack:
        made = {}
        for side, alias in SIDES.items():
            (broker,) = broker_pair[alias].brokers
            assert broker.far is not None
            made[side] = stack.enter_context(forwarding(broker.far))
        yield made


def near(broker_pair: Mapping[str, SandboxCluster]) -> dict[str, str]:
    return {side: broker_pair[alias].bootstrap_servers for side, alias in SIDES.items()}


@pytest.fixture
def far_copy(broker_pair: Mapping[str, SandboxCluster], lines: dict[str, Forwarder]) -> Iterator[Pair]:
    """Two partitions, copied over the forwarders."""
    far = {side: line.address for side, line in lines.items()}
    with Pair(near(broker_pair), far, partitions=2) as pair:
        yield pair


@pytest.fixture
def near_copy(broker_pair: Mapping[str, SandboxCluster], request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two partitions, copied without a forwarder; a parameter gives settings of the source topic."""
    servers = near(broker_pair)
    settings = {"source": getattr(request, "param", {})}
    with Pair(servers, servers, partitions=2, settings=settings) as pair:
        yield pair
