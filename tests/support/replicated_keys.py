"""A pair of clusters in memory with a compacted topic: one is lost, and comes back with keys that both have written."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ledger.changeover.plans import ChangeoverKind
from tests.simulation.kafka.administered import AdministeredCluster
from tests.simulation.kafka.stored_batches import is_tombstone, key_of
from tests.support.changing_pairs import FAILOVER, ChangingPair, value_of
from tests.support.failbacks import HOME
from tests.support.operator_processes import Strikes

USERS = ("users", 0)
REPLICATE = replace(HOME, extras=("users=replicate", "keep"))
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


def returning(pair: ChangingPair) -> Counter[tuple[str, str | None]]:
    """Offsets that were lost, by what was decided about them, and why."""
    return _decided(pair, "deficits_decided", "return")


def once(is_meant: Strikes, act: Callable[[], object]) -> Strikes:
    """Something happens behind the first such write, and nobody ends by it."""
    acts = [act]

    def strike(write: str) -> bool:
        if is_meant(write) and acts:
            acts.pop()()
        return False

    return strike


def is_begun(write: str) -> bool:
    return "flow:east-to-west offset_syncs unpaired" in write


def lasts(cluster: AdministeredCluster) -> dict[bytes, str | None]:
    """By key the last value, None where that is a tombstone; but for the key that applications write at home."""
    return {
        key: None if is_tombstone(one.content) else value_of(one)
        for one in cluster.log(*USERS).readable()
        if (key := key_of(one.content)) not in (None, b"k")
    }


def values(cluster: AdministeredCluster) -> Counter[str]:
    return Counter(value_of(one) for one in cluster.log(*USERS).readable())


def decided(pair: ChangingPair) -> Counter[tuple[str, str | None]]:
    """Offsets by policy and cause."""
    return _decided(pair, "extras_decided", "extra")


def _decided(pair: ChangingPair, kind: str, word: str) -> Counter[tuple[str, str | None]]:
    found: Counter[tuple[str, str | None]] = Counter()
    for row in pair.ledger.rows("operations"):
        if row["kind"] == kind:
            content = json.loads(row["content"])
            for one in content["ranges"]:
                found[content["policy"], content.get("cause")] += one[f"{word}_end"] - one[f"{word}_start"]
    return found


def repaired(pair: ChangingPair) -> list[list[int]]:
    rows = [
        json.loads(row["content"]) for row in pair.ledger.rows("operations") if row["kind"] == "keys_repaired"
    ]
    assert all(row["unknown"] == [] for row in rows)
    return [row["records"] for row in rows]


@dataclass
class Ends:
    """A process ends at each such write of copying extras, once, from where the mirror is let in for it."""

    words: tuple[str, ...]
    at: Counter[str] = field(default_factory=Counter)
    has_begun: bool = False

    def __call__(self, write: str) -> bool:
        self.has_begun |= "mirror_let_in" in write
        is_meant = any(word in write for word in self.words)
        if not (self.has_begun and is_meant) or self.at[write]:
            return False
        self.at[write] += 1
        return True
