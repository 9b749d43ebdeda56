"""Reference parts of documents say what the code says, and pictures what was measured: they are written from it."""

import pytest

from tests.benchmarks import mirror_speed
from tests.support import references
from tests.support.checkout import CHECKOUT


@pytest.mark.parametrize("document", references.DOCUMENTS)
def test_a_document_is_up_to_date(document: str) -> None:
    as_it_is = (CHECKOUT / document).read_text(encoding="utf-8")
    assert as_it_is == references.written_anew(document), f"{document} is out of date: make references"


def test_the_picture_of_the_speeds_is_up_to_date() -> None:
    assert mirror_speed.PICTURE.read_text(encoding="utf-8") == mirror_speed.drawn(), "make references"
