"""Pictures of the demonstration have all its chapters, its verdict, and no line that is cut."""

import html
import re

import pytest

from tests.support.pictures import PICTURES, drawn, told

CHAPTERS = ["mirror", "kill", "plan", "apply", "home", "compare"]
VERDICT = ["copied", "lost", "groups", "repeated", "downtime"]
PRINTED = """
1 of 6: mirror. It is copied.
   2.0 s  start clusters east and west: 127.0.0.1:9092
WARNING: of the JVM
   3.0 s  mirror
plan 1f: failover from east to west
  moves     8 topics
            in two lines
  lost      250 records
            of two topics
  fence     closed
kept: a folder
copied    250 records
"""


def text_of(picture: str) -> str:
    return html.unescape(" ".join(re.findall(r">([^<]*)</text>", picture))).replace("\xa0", " ")


def test_the_picture_has_all_chapters_and_the_verdict() -> None:
    text = text_of((PICTURES / "demo.svg").read_text(encoding="utf-8"))
    assert re.findall(r"\d of 6: (\w+)\.", text) == CHAPTERS
    places = [text.rindex(f"{label}  ") for label in VERDICT]
    assert places == sorted(places)
    assert places[0] > text.index("6 of 6")
    assert "…" not in text


def test_what_only_waits_or_names_is_left_out_and_what_is_lost_stays_whole() -> None:
    assert list(told(PRINTED)) == [
        "1 of 6: mirror. It is copied.",
        "   3.0 s  mirror",
        "  lost      250 records",
        "            of two topics",
        "copied    250 records",
    ]


def test_no_line_is_cut() -> None:
    assert "a" * 100 in text_of(drawn(["a" * 100], "title"))
    with pytest.raises(ValueError, match="longer than 100"):
        drawn(["a" * 101], "title")
