"""Sheets of a plan as they are recorded: where each group is to continue, with the commit that it comes from."""

from collections.abc import Sequence
from dataclasses import replace

from ledger.domain.operations.promotion.changeovers import Sheet
from ledger.operations.groups.outcomes import Outcome, Setting
from ledger.operations.groups.receipts import Why, intentions

_AT_THEIR_PLACE = (Outcome.SET, Outcome.ALREADY_SET, Outcome.READS_ON, Outcome.TO_BE_SET)


def is_at_its_place(one: Setting) -> bool:
    """Whether something stands where it was answered, or is to be set there."""
    return one.outcome in _AT_THEIR_PLACE


def sheets_of(plan_id: str, settings: Sequence[Setting], *, target_cluster: str, why: Why) -> list[Sheet]:
    """One for each group of which something is at its place; `why` as it is set with."""
    placed = [replace(one, outcome=Outcome.TO_BE_SET) for one in settings if is_at_its_place(one)]
    return [Sheet.of(plan_id, one) for one in intentions(placed, target_cluster=target_cluster, why=why)]
