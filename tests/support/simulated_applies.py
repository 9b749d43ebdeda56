"""What tests of applies in memory share: what is refused, what is typed then, and that nothing is lost."""

from collections.abc import Mapping
from typing import Any

import pytest

from ledger.errors import PreconditionError
from ledger.facts.acls import denial
from ledger.facts.permissions import Permission
from tests.support.changing_pairs import (
    GROUPS,
    TOPICS,
    ChangingPair,
    at_clusters,
)
from tests.support.documents import parsed_line, quoted_lines

PLACES = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]


def denied(principal: str, topic: str) -> Permission:
    return denial(topic, principal)


def require_nothing_lost_or_twice(pair: ChangingPair, *, records: int) -> None:
    """Each record at west is one that applications wrote, once, and each group has processed it once."""
    at_west = [(*place, value) for place, values in pair.values(pair.west).items() for value in values]
    assert len(at_west) == len({*at_west} & {*pair.taken}) == records
    for group in GROUPS:
        assert sorted(pair.processed[group]) == sorted(at_west), group


def refused(pair: ChangingPair, plan: str, words: str) -> str:
    """What an apply that is continued says where it does nothing more, and is to say it of."""
    before = at_clusters(pair)
    with pytest.raises(PreconditionError, match=words) as told:
        pair.apply(plan)
    assert at_clusters(pair) == before
    return str(told.value)


def typed_in(words: str) -> dict[str, Mapping[str, Any]]:
    """By name the commands that a message has, with their options as they are parsed: nothing mandatory is lacking."""
    return {name: options for line in quoted_lines(words) for name, options in [parsed_line(line)]}
