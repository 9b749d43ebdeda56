"""Every mutant of the views, of which the quick tests try some."""

import pytest

from ledger import catalog
from tests.support import view_mutants


@pytest.mark.parametrize("view", catalog.view_names())
def test_every_mutant_of_a_view_is_caught(view: str) -> None:
    benches = view_mutants.benches_of(view)
    assert benches
    assert all(bench.meets_its_case() for bench in benches)
    assert view_mutants.uncaught_of(view, one_in=1) == []
