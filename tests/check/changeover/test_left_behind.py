"""Groups that are at work at a cluster that was left: by their members, and by commits that moved."""

import pytest

from ledger.changeover.left_behind import GroupsLeft
from ledger.facts.tables import Row
from ledger.offsets.moving import moving

AT = ("g", "t", 0)


def commit(offset: int | None, *, group: str = "g", topic: str = "t", partition: int = 0) -> Row:
    return {"group_id": group, "topic": topic, "partition": partition, "committed_offset": offset}


@pytest.mark.parametrize(
    ("rows", "committed", "groups"),
    [
        ([commit(5), commit(6)], {}, {"g"}),
        ([commit(6), commit(5)], {}, {"g"}),  # somebody rewound it
        ([commit(5), commit(5)], {}, set()),  # a full sweep repeats it
        ([commit(5), commit(None)], {}, set()),  # it expired
        ([commit(5), commit(6, partition=1)], {}, set()),
        ([commit(5), commit(6, group="h")], {}, set()),
        ([commit(5, topic="u"), commit(6, topic="u")], {}, set()),  # not a topic that was left
        ([commit(5), commit(9)], {AT: {9}}, set()),  # a flow, or somebody by offsets set
        ([commit(9), commit(12)], {AT: {9}}, set()),  # behind that once: it may be what the flow commits next
        ([commit(9), commit(12), commit(13)], {AT: {9}}, {"g"}),
        ([commit(5), commit(9)], {("g", "t", 1): {9}, ("h", "t", 0): {9}}, {"g"}),
    ],
)
def test_commits_that_moved_and_that_nobody_else_has_made_name_a_group(
    rows: list[Row], committed: dict[tuple[str, str, int], set[int]], groups: set[str]
) -> None:
    assert moving(rows, {"t"}, committed) == groups


def test_what_is_not_known_of_groups_is_said() -> None:
    nothing = GroupsLeft(members=(), moving=(), unread=(), all_listed=True)
    assert nothing.words is None
    found = GroupsLeft(members=("a", "b"), moving=("b",), unread=("c",), all_listed=False)
    assert found.words == (
        "'a', 'b' at work; 'c' cannot be read; there may be groups that the mirror's principal may not describe"
    )
