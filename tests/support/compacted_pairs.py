"""A pair of clusters in memory with a compacted topic: one is lost, and comes back with keys that both have written."""

import json
from collections import Counter

from ledger.changeover.plans import ChangeoverKind
from tests.simulation.kafka.administered import AdministeredCluster
from tests.simulation.kafka.stored_batches import is_tombstone, key_of
from tests.support.changing_pairs import FAILOVER, ChangingPair, value_of

USERS = ("users", 0)
EXTRAS = {b"a": b"extra-a", b"b": b"extra-b", b"c": None, b"n": b"extra-n", b"d": b"extra-d"}
LASTS_MS = 86_400_000


def lost_and_back(lasts_ms: int = LASTS_MS) -> ChangingPair:
    """Applications have given `b` another value at west since, and deleted `d`; east has of all keys another one."""
    pair = ChangingPair()
    for cluster in (pair.east, pair.west):
        cluster.alter_topic("users", {"cleanup.policy": "compact", "delete.retention.ms": str(lasts_ms)})
    for key in (b"a", b"b", b"c", b"d", b"t"):
        assert pair.put(pair.east, USERS, key, b"first-" + key)
    pair.until(lambda: pair.is_copied, "all is copied")
    pair.destination = pair.west
    pair.lose_east(with_driver=True)
    pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER))
    assert pair.put(pair.west, USERS, b"b", b"newer-b")
    assert pair.put(pair.west, USERS, b"d", b"newer-d")
    assert pair.put(pair.west, USERS, b"d", None)
    pair.return_of_east(extras=0)
    for key, value in EXTRAS.items():
        assert pair.put(pair.east, USERS, key, value)
    pair.destination = pair.east
    return pair


def with_deficits_of_keys() -> ChangingPair:
    """East has lost `c`, `d` and `t`, then given `d` another value, which was copied; it is back with a value of `c`
    that it alone has. Applications have given `b` another value at west since."""
    pair = ChangingPair(goes_on=True)
    for cluster in (pair.east, pair.west):
        cluster.alter_topic("users", {"cleanup.policy": "compact", "delete.retention.ms": str(LASTS_MS)})
    for key in (b"a", b"b", b"c", b"d", b"t"):
        assert pair.put(pair.east, USERS, key, b"first-" + key)
    pair.until(lambda: pair.is_copied, "all is copied")
    log = pair.east.log(*USERS)
    log.lose_end(log.readable()[-3].offset)
    assert pair.put(pair.east, USERS, b"d", b"newer-d")
    pair.until(lambda: values(pair.west)["newer-d"] == 1, "it is copied, behind what east has lost")
    pair.destination = pair.west
    pair.lose_east(with_driver=True)
    pair.apply(pair.plan(ChangeoverKind.FAILOVER, FAILOVER))
    assert pair.put(pair.west, USERS, b"b", b"newer-b")
    pair.return_of_east(extras=0)
    assert pair.put(pair.east, USERS, b"c", b"extra-c")
    pair.destination = pair.east
    return pair


def lasts(cluster: AdministeredCluster) -> dict[bytes, str | None]:
    """By key the last value, None where that is a tombstone; but for the key that applications write at home."""
    return {
        key: None if is_tombstone(one.content) else value_of(one)
        for one in cluster.log(*USERS).readable()
        if (key := key_of(one.content)) not in (None, b"k")
    }


def values(cluster: AdministeredCluster) -> Counter[str]:
    return Counter(value_of(one) for one in cluster.log(*USERS).readable())


def decided(pair: ChangingPair, kind: str, word: str) -> Counter[str]:
    """Offsets by policy."""
    found: Counter[str] = Counter()
    for row in pair.ledger.rows("operations"):
        if row["kind"] == kind:
            content = json.loads(row["content"])
            for one in content["ranges"]:
                found[content["policy"]] += one[f"{word}_end"] - one[f"{word}_start"]
    return found
