"""What mirroring back refuses before it opens anything."""

from typing import cast

import pytest

from ledger.changeover.mirror_back import AskedMirrorBack, mirror_back
from ledger.context import Context
from ledger.errors import UsageError
from ledger.facts.extras import ExtrasPolicy


@pytest.mark.parametrize("policies", [{}, {"orders": ExtrasPolicy.RECREATE}])
def test_no_topic_is_created_again_for_its_extras(policies: dict[str, ExtrasPolicy]) -> None:
    policy = None if policies else ExtrasPolicy.RECREATE
    asked = AskedMirrorBack(source="west", target="east", policies=policies, policy=policy)
    with pytest.raises(UsageError, match="no command deletes the topics of east"):
        mirror_back(cast(Context, None), asked, print)
