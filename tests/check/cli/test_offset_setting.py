"""`offsets set`: which words do not go together, and a target that does not answer."""

import pytest

from tests.support.operated import Operated, own_mark

SET = ("offsets", "set", "--flow")


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (("east-to-west",), "--group (again for each) or --all-groups"),
        (("east-to-west", "--all-groups", "--group", "g"), "one of both; none was set"),
        (("east-to-west", "--all-groups", "--partition", "1"), "--partition needs --topic"),
        (("nope", "--all-groups"), "nope"),
        (("east-to-west", "--all-groups", "--accept", "no_map"), "no_map"),
        (("east-to-west", "--all-groups", "--wide", "-o", "csv"), "--wide is about tables"),
    ],
)
def test_what_does_not_go_together_is_refused(
    idle: Operated, arguments: tuple[str, ...], telling: str
) -> None:
    done = idle.command(*SET, *arguments)
    assert (done.code, done.out) == (2, "")
    assert telling in done.err


def test_a_target_that_does_not_answer_leaves_everything_as_it_is(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 10})
    at = {"cluster": "east", "topic": "orders", "topic_id": "id-of-orders", "partition": 0}
    idle.append("checkpoints", {**at, "group_id": "billing", "committed_offset": 4})
    done = idle.command(*SET, "east-to-west", "--all-groups")
    assert (done.code, done.out) == (1, "")
    assert "could not be reached" in done.err
    assert idle.operations() == []
