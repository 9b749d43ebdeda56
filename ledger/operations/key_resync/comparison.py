"""Which keys remain at a target although their source has no record of them any more.

Memory: about 100 bytes for every key of the source and every key alive at the target (a digest of 16 bytes in
a set or a dictionary), and the bytes of those keys that are at the target alone. Values are never kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from ledger.operations.adoption.records import LogRecord
from ledger.wire.record_fields import key_state

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class KeyComparison:
    """Keys with any record at the source, keys alive at the target, and those that are there alone, in log order."""

    source_keys: int
    target_keys: int
    left_over: tuple[bytes, ...]


def compare_keys(source: Iterable[LogRecord], target: Iterable[LogRecord]) -> KeyComparison:
    """Read the source to its end, then the target.

    A key is alive when its last record has a value. A record whose value is null counts as one of the source:
    its copy is at the target. Records without a key, and those of aborted transactions, count nowhere.
    """
    known = _digests(source)
    alive: dict[bytes, bytes | None] = {}
    for record in target:
        state = key_state(record.content)
        if state.key is None or record.cause is not None:
            continue
        digest = _digest(state.key)
        alive.pop(digest, None)
        if not state.is_tombstone:
            alive[digest] = None if digest in known else state.key
    left_over = tuple(key for key in alive.values() if key is not None)
    return KeyComparison(len(known), len(alive), left_over)


def _digests(records: Iterable[LogRecord]) -> set[bytes]:
    """Of the keys of all records."""
    readable = (key_state(record.content).key for record in records if record.cause is None)
    return {_digest(key) for key in readable if key is not None}


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
