"""Text for people: counts, instants, partitions; and text of others, as it may be shown."""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

# Unicode text -------------------------------------------------------------------------------------
# Text of others: whether it is Unicode at all, and as it may reach a terminal or a log.


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can write it: bytes that are no text come from command lines as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def shown(text: str) -> str:
    """The text as a terminal may have it: what is not printable is escaped, for anybody may name a group."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shell_word(text: str) -> str:
    """As a shell reads it back: quoted where it has to be, without a character that a terminal would obey."""
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_in_shell, text))}'"


def shown_lines(text: str) -> str:
    """The same for a text of several lines, which it keeps."""
    return "\n".join(map(shown, text.split("\n")))


def _in_shell(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\U{code:08x}"


def without_figures(text: str) -> str:
    """What of a text stays while it counts."""
    return "".join(character for character in text if character not in "0123456789,.")


# Partition names ----------------------------------------------------------------------------------
# Many partitions in few words: numbers as ranges, partitions by topic.


def number_ranges(numbers: Iterable[int]) -> str:
    """Numbers in order, neighbours together: `0-3, 7`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def of_topic(topic: str, numbers: Sequence[int]) -> str:
    """Partitions of one topic: `orders partition 1`, `orders partitions 0-3, 7`."""
    return f"{topic} partition{'s' if len(set(numbers)) > 1 else ''} {number_ranges(numbers)}"


def by_topic(partitions: Iterable[tuple[str, int]]) -> str:
    """Partitions of several topics: `events partition 0; orders partitions 0-3, 7`."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        numbers[topic].append(partition)
    return "; ".join(of_topic(topic, numbers[topic]) for topic in sorted(numbers))


# Time words ---------------------------------------------------------------------------------------
# Instants and durations as people read them.


_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_YEAR_10000_S = 253_402_300_800


def instant(at_ms: int) -> str:
    """In UTC, to the second, as `--as-of` takes it: `2026-11-22 03:12:40Z`; outside 1970 to 9999 a number."""
    if not 0 <= at_ms // 1000 < _YEAR_10000_S:
        return f"{at_ms} ms"
    return datetime.fromtimestamp(at_ms // 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def elapsed(seconds: float) -> str:
    """What a step took, in a column of such times: `  12.3 s`. Two readings of a clock may be in the wrong order."""
    return f"{max(seconds, 0.0):6.1f} s"


def duration(seconds: float) -> str:
    """The two largest units that it has: `2 min 10 s`, `3 h 5 min`, `12 s`; less than a second in full."""
    if seconds < 1:
        return f"{max(seconds, 0.0):.3f} s" if seconds > 0 else "0 s"
    left = int(seconds)
    words: list[str] = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if words or count:
            words.append(f"{count} {unit}" if count else "")
        if len(words) == 2:
            break
    return " ".join(word for word in words if word)


# Count words --------------------------------------------------------------------------------------
# How many of something, and some of many names, as people read it.


def counted(number: int, what: str) -> str:
    """The number, with its thousands set apart, and the word, with an s unless it is one: `1,200 records`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def listed(lines: Iterable[str]) -> Iterator[str]:
    """As lines of a message that are about its first one."""
    return (f"  {line}" for line in lines)


def some_of(names: Sequence[str], what: str, *, at_most: int = 3) -> str:
    """The first of them, and how many more there are: `a, b, c and 57 more topics`."""
    if len(names) <= at_most:
        return ", ".join(names)
    return f"{', '.join(names[:at_most])} and {counted(len(names) - at_most, f'more {what}')}"
