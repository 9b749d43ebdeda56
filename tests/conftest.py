"""Fixtures that all suites share: the artifacts' home and a pair of real one-broker clusters."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ledger.adapters import jvm
from ledger.sandbox import Sandbox, SandboxCluster

CHECKOUT = Path(__file__).parent.parent


@pytest.fixture(scope="session", autouse=True)
def home() -> Path:
    """Where fetched artifacts are; in the checkout unless MIRROR_LEDGER_HOME says otherwise."""
    os.environ.setdefault("MIRROR_LEDGER_HOME", str(CHECKOUT / ".mirror-ledger"))
    return jvm.home()


@pytest.fixture(scope="session")
def broker_pair_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """The sandbox behind `broker_pair`, for tests that disturb its brokers and put them right again."""
    sandbox = Sandbox(tmp_path_factory.mktemp("broker-pair"))
    try:
        sandbox.up(["east", "west"], brokers=1)
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture(scope="session")
def broker_pair(broker_pair_sandbox: Sandbox) -> Mapping[str, SandboxCluster]:
    """Clusters `east` and `west`, one broker each, shared by the whole run: use topics of your own."""
    return broker_pair_sandbox.status()
