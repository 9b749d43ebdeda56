"""A clock and a ledger in memory for each test of a recorder."""

import pytest

from tests.support.fakes import FakeClock, FakeLedger


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ledger(clock: FakeClock) -> FakeLedger:
    return FakeLedger(clock)
