"""Where a request can be granted: by what the ledger knows alone, and by what a driver sees at the source."""

from itertools import product

import pytest

from ledger.facts.requests import REQUEST_CLASSES, Reached, Request, RequestKind, Resync, SkipTo

LOG_START, POSITION, END = 3, 5, 7
SEEN = Reached(position=POSITION, log_start=LOG_START, end=END)
KNOWN = Reached(position=POSITION)


def possible(kind: type[Request], reached: Reached) -> list[int]:
    """Offsets of a small log."""
    return [
        offset
        for offset in range(END + 3)
        if kind(topic="orders", partition=0, offset=offset).is_possible(reached)
    ]


def test_skipped_is_what_lies_between_the_position_and_the_end() -> None:
    assert possible(SkipTo, SEEN) == [6, 7]
    assert possible(SkipTo, KNOWN) == [6, 7, 8, 9]
    assert not SkipTo(topic="orders", partition=0).is_possible(SEEN)


def test_copied_again_is_what_was_copied_and_is_still_there() -> None:
    assert possible(Resync, SEEN) == [3, 4, 5]
    assert possible(Resync, KNOWN) == [0, 1, 2, 3, 4, 5]
    assert possible(Resync, Reached(position=POSITION, log_start=LOG_START, end=4)) == [3, 4]


def test_without_an_offset_all_is_copied_again_that_is_there() -> None:
    whole = Resync(topic="orders")
    assert whole.is_possible(SEEN)
    assert whole.is_possible(KNOWN)
    assert not whole.is_possible(Reached(position=2, log_start=LOG_START, end=END)), (
        "nothing of it was copied"
    )


@pytest.mark.parametrize("kind", RequestKind)
def test_what_the_ledger_refuses_the_driver_refuses_too(kind: RequestKind) -> None:
    refused = 0
    for offset, position, log_start, length in product((None, *range(5)), range(5), range(5), range(3)):
        ask = REQUEST_CLASSES[kind](topic="orders", partition=0, offset=offset)
        seen = Reached(position=position, log_start=log_start, end=log_start + length)
        if not ask.is_possible(Reached(position=position)):
            refused += 1
            assert not ask.is_possible(seen)
        assert ask.is_possible(Reached(position=None)) or (kind, offset) == (RequestKind.SKIP_TO, None)
    assert (refused > 0) == (kind in (RequestKind.SKIP_TO, RequestKind.RESYNC))
