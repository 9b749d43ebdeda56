"""Names of many partitions in few words, and text of others that no terminal obeys."""

import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.words import by_topic, is_unicode, number_ranges, of_topic, shell_word, shown, shown_lines
from tests.support.hostile_names import HOSTILE, UNWRITABLE


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([], ""),
        ([4], "4"),
        ([1, 0], "0-1"),
        ([2, 0, 1, 1], "0-2"),
        ([0, 2, 3, 4, 9], "0, 2-4, 9"),
    ],
)
def test_neighbours_are_told_together(numbers: Sequence[int], words: str) -> None:
    assert number_ranges(numbers) == words


def test_partitions_are_told_by_topic() -> None:
    assert of_topic("orders", [1]) == "orders partition 1"
    assert of_topic("orders", [1, 0, 5]) == "orders partitions 0-1, 5"
    places = [("orders", 1), ("events", 0), ("orders", 0)]
    assert by_topic(places) == "events partition 0; orders partitions 0-1"


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
