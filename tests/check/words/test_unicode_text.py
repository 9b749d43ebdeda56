"""Text of others: a terminal obeys none of it, and a shell reads it back."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.words import is_unicode, shell_word, shown, shown_lines
from tests.support.hostile_names import HOSTILE, UNWRITABLE

NAMES = [name for name in (*HOSTILE, *UNWRITABLE) if "\0" not in name]


@settings(print_blob=True, deadline=None)
@given(st.text())
def test_what_is_shown_is_printable_and_what_was_printable_is_as_it_was(text: str) -> None:
    assert shown(text).isprintable()
    assert (shown(text) == text) == text.isprintable()
    assert shown_lines(text).split("\n") == [shown(line) for line in text.split("\n")]


@pytest.mark.parametrize("text", [*NAMES, "don't \x1b[31m", "\\x1b\x1b", "a\x1b1", "\u009b1f"])
def test_a_shell_reads_a_word_back_and_a_terminal_obeys_none(text: str) -> None:
    word = shell_word(text)
    assert word.isprintable()
    script = f"printf %s {word}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert done.stdout.decode() == text


def test_bytes_that_are_no_text_are_known() -> None:
    assert all(map(is_unicode, (*HOSTILE, *UNWRITABLE)))
    assert not is_unicode(b"\xff".decode("utf-8", "surrogateescape"))
