"""How many of something, and some of many names, as people read it."""

from collections.abc import Sequence


def counted(number: int, what: str) -> str:
    """The number, with its thousands set apart, and the word, with an s unless it is one: `1,200 records`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def some_of(names: Sequence[str], what: str, *, at_most: int = 3) -> str:
    """The first of them, and how many more there are: `a, b, c and 57 more topics`."""
    if len(names) <= at_most:
        return ", ".join(names)
    return f"{', '.join(names[:at_most])} and {counted(len(names) - at_most, f'more {what}')}"
