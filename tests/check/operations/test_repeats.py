"""What groups would read again: held against the objective, with the places that make most of it."""

from typing import Any

import pytest

from ledger.domain.objectives import Objective
from ledger.errors import PreconditionError
from ledger.operations.figures.repeats import require_few_repeats

WAY = ("west", "east")
ALLOWED = {Objective.MAX_REPEATS_PER_GROUP: 10.0}


def answer(group: str, partition: int, repeated: int | None, status: str = "exact") -> dict[str, Any]:
    place = {
        "group_id": group,
        "source_topic": "orders",
        "target_topic": "orders",
        "source_partition": partition,
    }
    return {**place, "repeated": repeated, "status": status}


def refused(*answers: dict[str, Any]) -> str:
    with pytest.raises(PreconditionError) as error:
        require_few_repeats(answers, ALLOWED, way=WAY)
    assert error.value.exit_code == 5
    return str(error.value)


def test_as_many_as_allowed_of_each_group_pass() -> None:
    found = [answer("a", 0, 4), answer("a", 1, 6), answer("b", 0, 10)]
    require_few_repeats(found, ALLOWED, way=WAY)
    require_few_repeats([answer("a", 0, 1_000)], {}, way=WAY)


def test_more_than_allowed_is_refused_with_its_cause() -> None:
    said = refused(
        answer("a", 0, 4, "extras"),
        answer("a", 1, 7, "extras"),
        answer("a", 2, 0),
        answer("a", 3, 1),
        answer("a", 4, 2),
        answer("b", 0, 10),
    )
    assert said.splitlines() == [
        "groups would read records again, no offset was set:",
        "  group 'a': what is repeated is 14 records, max_repeats_per_group allows 10 records (orders partition 1: "
        "7 records, status extras; orders partition 0: 4 records, status extras; orders partition 4: 2 records, status "
        "exact; and 1 more)",
        "Where the status is extras, records that are at east alone lie unread in front: mirror-ledger query "
        "one_sided_records --param from_cluster=west --param to_cluster=east. To set offsets all the same: "
        "--despite-objectives",
    ]


def test_unknown_is_not_few() -> None:
    said = refused(answer("a", 0, 1), answer("a", 1, None, "no_map"))
    assert "what is repeated is unknown" in said
    assert "(orders partition 1: unknown, status no_map; orders partition 0: 1 record, status exact)" in said
