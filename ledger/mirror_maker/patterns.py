"""Lists of names and regular expressions, as MirrorMaker 2 reads them, in Python's expressions.

MirrorMaker cuts a list at its commas and compiles what it gets as one expression of alternatives, which has to match a
whole name. So a plain name is an expression too, and its dots match anything.
"""

import re
from contextlib import suppress
from dataclasses import dataclass

_SEPARATOR = re.compile(r"\s*,\s*")
_COUNTED = re.compile(r"\{\d+(,\d*)?\}")
_FLAGS = re.compile(r"\(\?[a-zA-Z]+\)")
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Space": r"\s",
    "IsAlphabetic": "a-zA-Z",
    "L": "a-zA-Z",
    "N": "0-9",
}
_NO_EQUAL = "RXGcehHVxN0"
"""Letters behind a backslash that mean something in Java and nothing, or something else, in Python."""


class NoEqualError(ValueError):
    """Python has no equal for what a Java expression says."""


@dataclass(frozen=True, slots=True)
class PatternList:
    """`patterns` select the same names as the list; empty: none. `refused` None, or why it cannot be taken over."""

    patterns: tuple[str, ...]
    refused: str | None = None


def parts_of(text: str) -> list[str]:
    """What a list of Kafka's configurations has between its commas, without blanks and without what is empty."""
    stripped = text.strip()
    return [part for part in _SEPARATOR.split(stripped) if part] if stripped else []


def pattern_list(text: str) -> PatternList:
    """A list of names and expressions: each by itself where it can stand alone, else all as one."""
    parts = parts_of(text)
    alone: list[str] | None = None
    with suppress(NoEqualError, re.error):  # a part may be an expression together with the next one
        alone = [python_pattern(part) for part in parts]
    # A flag at the beginning of a part holds for all that follow it.
    if alone is not None and not any(_FLAGS.search(part) for part in parts[:-1]):
        return PatternList(tuple(alone))
    try:
        return PatternList((python_pattern("|".join(parts)),))
    except NoEqualError as error:
        return PatternList((), f"Python has no equal for {error}")
    except re.error as error:
        return PatternList((), f"it is cut at its commas, and {'|'.join(parts)!r} is no expression: {error}")


def python_pattern(java: str) -> str:
    """A Python expression that matches the same names; raises `NoEqualError`, or `re.error` where it is none."""
    pieces: list[str] = []
    place, is_in_class = 0, False
    while place < len(java):
        character, rest = java[place], java[place:]
        taken = character
        if character == "\\":
            taken, piece = _escape(rest, is_in_class=is_in_class)
        elif not is_in_class and rest.startswith("(?<") and rest[3:4] not in ("=", "!", ""):
            taken, piece = "(?<", "(?P<"
        elif is_in_class and (character == "[" or rest.startswith("&&")):
            raise NoEqualError("a class of characters within another one")
        elif not is_in_class and character == "{" and not _COUNTED.match(rest):
            raise re.error("a counted repetition is not closed")  # Python takes it for text, Java does not
        else:
            piece = character
            is_in_class = (is_in_class or character == "[") and character != "]"
        pieces.append(piece)
        place += len(taken)
    made = "".join(pieces)
    re.compile(made)
    return made


def _escape(rest: str, *, is_in_class: bool) -> tuple[str, str]:
    """What stands at a backslash, and what to write for it."""
    letter = rest[1:2]
    if letter == "Q":
        quoted = rest[2:].partition("\\E")
        return f"\\Q{quoted[0]}{quoted[1]}", re.escape(quoted[0])
    if letter in ("p", "P"):
        found = re.match(r"\\[pP](?:\{(\w+)\}|(\w))", rest)
        inner = _POSIX.get(found[1] or found[2]) if found else None
        if found is None or inner is None or (letter == "P" and is_in_class):
            raise NoEqualError(found[0] if found else f"\\{letter}")
        return found[0], inner if is_in_class else f"[{'^' if letter == 'P' else ''}{inner}]"
    if letter == "k" and (named := re.match(r"\\k<(\w+)>", rest)):
        return named[0], f"(?P={named[1]})"
    if letter == "z":
        return "\\z", r"\Z"
    if letter and letter in _NO_EQUAL:
        raise NoEqualError(f"\\{letter}")
    return f"\\{letter}", f"\\{letter}"
