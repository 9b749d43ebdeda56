"""Topics that are compacted in the middle of a failback, or are not, over clusters in memory."""

from dataclasses import replace

import pytest

from ledger.changeover.plans import ChangeoverKind
from ledger.errors import UnsafeError
from tests.support.compacted_pairs import USERS, decided, values, with_deficits_of_keys
from tests.support.failbacks import BACK, HOME, require_home


def test_what_became_compacted_while_it_was_applied_is_refused_before_anything_is_copied() -> None:
    pair = with_deficits_of_keys()
    for cluster in (pair.east, pair.west):
        cluster.alter_topic("users", {"cleanup.policy": "delete"})
    choices = replace(HOME, extras=("replicate",), deficits=("return",))
    plan = pair.plan(ChangeoverKind.FAILBACK, choices, way=BACK)
    before = values(pair.west)

    def compacts(name: str) -> bool:
        if "step_done" in name:
            pair.west.alter_topic("users", {"cleanup.policy": "compact"})
        return False

    with pytest.raises(UnsafeError, match="compacted, or may be"):
        pair.apply(plan, pair.outside.process(behind=compacts))
    assert values(pair.west) == before
    assert decided(pair, "deficits_decided", "return") == decided(pair, "extras_decided", "extra") == {}
    pair.end()


def test_what_a_driver_at_work_found_lost_returns_once_where_no_topic_is_compacted() -> None:
    pair = with_deficits_of_keys()
    for cluster in (pair.east, pair.west):
        cluster.alter_topic("users", {"cleanup.policy": "delete"})
    pair.apply(pair.plan(ChangeoverKind.FAILBACK, replace(HOME, deficits=("return",)), way=BACK))
    require_home(pair, [(*USERS, "extra-c")])
