"""`hand-over`: what is refused before anything is asked of a cluster, and a cluster that does not answer."""

import pytest

from tests.support.operated import Operated, own_mark

PAIR = ("--from", "east", "--to", "west")
REASON = ("--reason", "r")


@pytest.mark.parametrize(
    ("arguments", "code", "telling"),
    [
        (("apply", *PAIR), 2, "--reason"),
        (("show", "--from", "nope", "--to", "west"), 2, "nope"),
        (
            ("show", "--from", "west", "--to", "east"),
            2,
            "no flow of the configuration copies from west to east",
        ),
        (("show", *PAIR, "--topic", "none"), 2, "no flow from east to west copies to topic none"),
        (("show", *PAIR, "--for", "nobody"), 2, "nobody"),
        (("show", *PAIR), 5, "the ledger knows no topic at all that was copied from east to west"),
        (("apply", *PAIR, *REASON), 5, "knows no topic"),
        (("undo", "x", *REASON), 2, "no hand-over has the operation id 'x'; nothing was undone"),
        (("undo", "x"), 2, "--reason"),
        (("show", *PAIR, "--wide", "-o", "csv"), 2, "--wide is about tables"),
    ],
)
def test_what_cannot_be_handed_over_is_refused(
    idle: Operated, arguments: tuple[str, ...], code: int, telling: str
) -> None:
    done = idle.command("hand-over", *arguments)
    assert (done.code, done.out) == (code, "")
    assert telling in done.err
    assert idle.operations() == []


def test_a_cluster_that_does_not_answer_is_not_handed_anything(idle: Operated) -> None:
    idle.writer("claimed", own_mark())
    idle.copied({("orders", 0): 10})
    done = idle.command("hand-over", "show", *PAIR)
    assert (done.code, done.out) == (1, "")
    assert "could not be reached" in done.err
