"""Lines and clusters that fail under a copy or a run."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from pyspark.sql import SparkSession

from ledger.errors import ClusterUnavailableError
from ledger.sandbox import Sandbox
from tests.support.copies import Pair, limits
from tests.support.flows import FlowUnderTest
from tests.support.forwarder import Forwarder
from tests.support.runs import run

# -- Lines -----------------------------------------------------------------------------------------


def assert_given_up_in_time(pair: Pair, line: Forwarder) -> None:
    """A connection that is half open for a while is told as trouble; the task keeps its deadline, then goes on."""
    bounded = limits(request_timeout_ms=2_000)
    with closing(pair.network(request_timeout_s=2)) as network:
        pair.produce(200)
        pair.run(network=network, limits=bounded)
        line.freeze()
        pair.produce(200, start=200)
        started = time.monotonic()
        results = pair.run(seconds=3, network=network, limits=bounded)
        assert time.monotonic() - started < 6, "the task outlived its deadline"
        assert {result.position.source_offset for result in results} == {100}
        assert all(result.trouble is not None and result.stop is None for result in results)
        line.thaw()
        results = pair.run(network=network, limits=bounded)
    assert [result.trouble for result in results] == [None, None]
    assert pair.assert_same() == 400


def assert_lost_answers_are_made_up_for(pair: Pair, line: Forwarder, batches: int) -> None:
    """The target's broker takes so many batches whose answers nobody sees; nothing is doubled or missing."""
    line.slow(round_trip_s=0.05)
    with closing(pair.network()) as network:
        pair.produce(200, client={"batch.num.messages": 5})
        pair.run(network=network)
        pair.produce(10 * batches + 200, start=200, size=200, client={"batch.num.messages": 5})
        line.lose_answers(after_bytes=1_000 * batches, for_s=0.5)
        pair.run(network=network)
    assert line.has_lost_answers
    assert pair.assert_same() == 10 * batches + 400
    assert any(sync.recovered for sync in pair.syncs)


# -- A cluster that is away ------------------------------------------------------------------------


def assert_a_run_ends_with_an_error_while_away(flow: FlowUnderTest, spark: SparkSession, alias: str) -> None:
    """It is to end when it has caught up: it names the cluster, and records nothing."""
    recorded = flow.rows("offset_syncs")
    with pytest.raises(ClusterUnavailableError, match=f"cluster {alias} at") as told:
        run(flow.config, spark)
    assert told.value.exit_code == 1
    assert flow.rows("offset_syncs") == recorded


# -- A cluster that is lost ------------------------------------------------------------------------


@contextmanager
def lost(sandbox: Sandbox, alias: str = "east") -> Iterator[None]:
    """A cluster is killed, and is back behind the body."""
    sandbox.kill(alias)
    try:
        yield
    finally:
        sandbox.start(alias)
