"""What a plan says is to be done ends the state that it was said in: plans are made again with just what is printed."""

import re
from dataclasses import replace

import pytest

from ledger.changeover.plans import BlockerCode, FenceChoice
from tests.support.failbacks import HOME, with_extras

pytestmark = pytest.mark.long


def test_a_failback_between_clusters_without_an_authorizer_passes_with_the_fence_that_is_printed() -> None:
    pair, _ = with_extras()
    for one in (pair.east, pair.west):
        one.authorizations = lambda: None  # type: ignore[method-assign]
    found = pair.failback_blockers(HOME)
    assert set(found) == {"fence"}, found
    printed = re.match(r"plan with --fence (\w+) --accept (\w+) ", BlockerCode.FENCE.advice)
    assert printed is not None
    fence, accepted = printed.groups()
    typed = replace(HOME, fence=FenceChoice(fence), producers_stopped=accepted == "producers_stopped")
    assert pair.failback_blockers(typed) == {}
    pair.end()
