"""A clock, a ledger in memory, and a cluster with its recorder for each test of one."""

import pytest

from ledger.facts.roles import RoleVerdict
from ledger.recorders.recorder import ClusterRecorder
from tests.support.fakes import FakeClock, FakeCluster, FakeLedger, recorder_of, watched_cluster


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ledger(clock: FakeClock) -> FakeLedger:
    return FakeLedger(clock)


@pytest.fixture
def cluster() -> FakeCluster:
    return watched_cluster()


@pytest.fixture
def recorder(cluster: FakeCluster, ledger: FakeLedger) -> ClusterRecorder:
    recorder = recorder_of(cluster, ledger)
    assert recorder.take_role() is RoleVerdict.UNCLAIMED
    return recorder
