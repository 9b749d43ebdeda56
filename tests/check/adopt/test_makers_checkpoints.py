"""What MirrorMaker 2 writes of groups to its checkpoints topic is read, and nothing else taken for it."""

import struct

import pytest

from ledger.adopt.synced_groups import MakersCheckpoint, makers_checkpoint

GROUP, TOPIC = "gr\u00fcn".encode(), b"a.orders"
KEY = struct.pack(">h", len(GROUP)) + GROUP + struct.pack(">h", len(TOPIC)) + TOPIC + struct.pack(">i", 3)
VALUE = struct.pack(">hqq", 0, 300, 203) + struct.pack(">h", 4) + b"note"


def test_a_checkpoint_is_read() -> None:
    assert makers_checkpoint(KEY, VALUE) == MakersCheckpoint(("gr\u00fcn", "a.orders", 3), 300, 203)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", VALUE),
        (KEY[:9], VALUE),
        (KEY[:-1], VALUE),
        (KEY + b"x", VALUE),
        (b"\1\0" + KEY[2:], VALUE),
        (KEY, VALUE[:17]),
        (KEY, b"\0\1" + VALUE[2:]),
        (KEY.replace(GROUP, b"\xff" * len(GROUP)), VALUE),
    ],
)
def test_what_is_none_is_left(key: bytes, value: bytes) -> None:
    assert makers_checkpoint(key, value) is None
