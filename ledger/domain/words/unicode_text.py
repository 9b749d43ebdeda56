"""Text of others: whether it is Unicode at all, and as it may reach a terminal or a log."""

import shlex


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
