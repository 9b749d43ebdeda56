"""A broker of three that hangs under a copy."""

import time
from contextlib import closing

from ledger.kafka.network import KafkaNetwork
from tests.support.copies import Pair, limits
from tests.support.trio import Trio
from tests.support.waiting import eventually

QUICK = limits(request_timeout_ms=5_000)


def assert_others_go_on_while_one_hangs(trio: Trio, *, is_connected: bool) -> None:
    """Partitions without a replica on it are copied to their ends; `is_connected`: the task had spoken with it."""
    both = {"source": trio.servers, "target": trio.servers}
    with Pair(both, both, partitions=3, limits=QUICK) as pair, closing(pair.network()) as network:
        spread = [trio.leader(pair.topics["source"], p) for p in range(3)]
        landing = [trio.leader(pair.topics["target"], p) for p in range(3)]
        hung = spread[0]
        free = [p for p in range(3) if hung not in (spread[p], landing[p])]
        assert free, "every partition has a replica of its own broker"
        before = 30 if is_connected else 0
        if is_connected:
            pair.produce(before)
            pair.run(network=network)
        pair.produce(300, start=before)
        trio.sandbox.pause("trio", hung)
        try:
            started = time.monotonic()
            results = pair.run(seconds=8, to_the_end=False, network=network)
            took = time.monotonic() - started
            assert results[0].stop is None
            assert results[0].trouble is not None
            eventually(lambda: _reached(pair, network, free, (before + 300) // 3), "the others are copied")
        finally:
            trio.sandbox.resume("trio", hung)
        assert took < 15
        eventually(lambda: trio.leader(pair.topics["source"]) == hung, "the broker leads again")
        eventually(
            lambda: set(pair.ends()) == set(pair.ends("target")) == {0, 1, 2}, "all partitions are led"
        )
        pair.run(network=network)
        assert pair.assert_same() == before + 300


def _reached(pair: Pair, network: KafkaNetwork, partitions: list[int], end: int) -> bool:
    """Whether they are copied up to an end; a busy machine needs another round for it."""
    if all(pair.standing[partition].position.source_offset == end for partition in partitions):
        return True
    pair.run(seconds=3, to_the_end=False, network=network)
    return False
