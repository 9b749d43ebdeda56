"""Java properties as Java reads them.

Java knows no comment behind a value, and no list over several lines without a backslash before each line end. Bytes are
ISO 8859-1, so a character of UTF-8 becomes two or more.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ledger.errors import InvalidValueError

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_ENDS_A_KEY = f"=:{_BLANKS}"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Property:
    """A key and its value, without escapes; `line`: where it begins, from 1."""

    key: str
    value: str
    line: int


def read_properties(content: bytes) -> list[Property]:
    """All properties in the order of the file, repeated keys among them: in Java the last one counts.

    Raises `InvalidValueError` where Java refuses the file.
    """
    return [_property(line, number) for number, line in _logical_lines(content.decode("iso-8859-1"))]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, joined where a backslash stands before the line end, with their numbers."""
    lines = iter(enumerate(_LINE_END.split(text), start=1))
    for number, natural in lines:
        line = natural.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while _is_continued(line):
            _, following = next(lines, (0, ""))
            line = line[:-1] + following.lstrip(_BLANKS)
        yield number, line


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _property(line: str, number: int) -> Property:
    end, is_escaped = 0, False
    while end < len(line) and (is_escaped or line[end] not in _ENDS_A_KEY):
        is_escaped = line[end] == "\\" and not is_escaped
        end += 1
    value = line[end:].lstrip(_BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANKS)
    return Property(_unescaped(line[:end], number), _unescaped(value, number), number)


def _unescaped(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    pieces: list[str] = []
    place = 0
    while place < len(text):
        character = text[place]
        place += 1
        if character != "\\" or place == len(text):
            pieces.append("" if character == "\\" else character)
            continue
        escaped = text[place]
        place += 1
        if escaped == "u":
            pieces.append(_code_unit(text[place : place + 4], number))
            place += 4
        else:
            pieces.append(_ESCAPES.get(escaped, escaped))
    joined = "".join(pieces)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _code_unit(digits: str, number: int) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]{4}", digits):
        raise InvalidValueError(
            f"line {number}: \\u is not followed by four hexadecimal digits, so Java refuses the file"
        )
    return chr(int(digits, 16))
