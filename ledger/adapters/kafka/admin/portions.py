"""Requests about many names, portion by portion, and what is said of them."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def listed(names: Sequence[str], kind: str = "topic") -> str:
    """`topic a, b, c and 4 more`, for messages."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{kind} {', '.join(names[:3])}{more}"


def parts(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """What one request is asked about, of many."""
    return (items[start : start + size] for start in range(0, len(items), size))
