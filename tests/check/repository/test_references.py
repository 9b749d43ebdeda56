"""Reference parts of documents say what the code says: they are written from it."""

import pytest

from tests.support import references
from tests.support.checkout import CHECKOUT


@pytest.mark.parametrize("document", references.DOCUMENTS)
def test_a_document_is_up_to_date(document: str) -> None:
    as_it_is = (CHECKOUT / document).read_text(encoding="utf-8")
    assert as_it_is == references.written_anew(document), f"{document} is out of date: make references"
