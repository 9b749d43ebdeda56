"""What a line does to a copy in the middle of it, whichever side or moment it is."""

import time
from contextlib import closing

from tests.support.copies import Pair, limits
from tests.support.forwarder import Forwarder


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
