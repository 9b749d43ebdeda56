"""What can be proved of a tail from what is left on both sides, rule by rule (`ledger.mirror.task.cleaned_tail`).

Sides are written as words. `a1` is a record of key `a`; `-` at the source an offset whose record a cleaner took, at
the target an index whose record it took; `.` at the source a marker; `/` at the target the end of a batch, and `(n)` n
records whose batches are gone.
"""

import pytest

from ledger.mirror.cleaned_tail import ANY_NUMBER, Left, Proof, SourceSide, TailRange, TargetSide, prove


def record(word: str, at: int) -> Left:
    return Left(at, word.encode(), None if word[0] == "?" else word[:1].encode(), at)


def source(words: str, *, start: int = 0, hole_before: int = 0) -> SourceSide:
    placed = list(enumerate(words.split(), start))
    return SourceSide(
        start,
        [record(word, at) for at, word in placed if word not in "-."],
        [(at, at + 1) for at, word in placed if word == "-"],
        hole_before,
    )


def target(words: str) -> TargetSide:
    """Target offsets are 100 more than indexes."""
    index, batches, records = 0, list[TailRange](), dict[int, Left]()
    for batch in words.split("/"):
        first = index
        for word in batch.split():
            if word.startswith("("):
                index += int(word[1:-1])
                first = index
            else:
                if word != "-":
                    records[index] = record(word, index)
                index += 1
        if index > first:
            batches.append(TailRange(100 + first, index - first, first))
    return TargetSide(batches, records)


def pairs(proof: Proof) -> dict[int, int]:
    """Source offset to index."""
    assert all(
        piece.target_start == 100 + piece.index for piece in proof.found if isinstance(piece, TailRange)
    )
    return {
        piece.source_start + n: piece.place.index + n
        for piece in proof.found
        if not isinstance(piece, TailRange)
        for n in range(piece.place.count)
    }


def alone(proof: Proof) -> list[int]:
    """Indexes of target records without a source, between pairs and behind them in their batch."""
    return [n for piece in proof.found if isinstance(piece, TailRange) for n in range(piece.index, piece.end)]


NOTHING: dict[int, int] = {}


@pytest.mark.parametrize(
    ("at_source", "at_target", "expected"),
    [
        pytest.param("a1 b1 a2", "- b1 / a2", {0: 0, 1: 1, 2: 2}, id="the source is whole"),
        pytest.param("a1 b1 a2 b2", "(2) / a2 b2", {2: 2, 3: 3}, id="batches are gone"),
        pytest.param("a1 . b1 a2", "- b1 / a2", {0: 0, 2: 1, 3: 2}, id="a marker has no index"),
        pytest.param("- a1 b1", "x1 a1 b1", {0: 0, 1: 1, 2: 2}, id="as many gone as offsets"),
        pytest.param("- a1", "x1 y1 a1", NOTHING, id="more before it than there are offsets"),
        pytest.param("a1 - c1", "a1 x1 c1 / d1", {0: 0, 1: 1, 2: 2}, id="all of a hole was copied"),
        pytest.param("a1 b1", "a2 -", NOTHING, id="another record where the count puts it"),
    ],
)
def test_what_counting_proves(at_source: str, at_target: str, expected: dict[int, int]) -> None:
    assert pairs(prove(source(at_source), target(at_target))) == expected


@pytest.mark.parametrize(
    ("at_source", "at_target", "expected"),
    [
        pytest.param("- - a1 - - b1", "x1 a1 / y1 b1", {2: 1, 5: 3}, id="each is there once"),
        pytest.param("- - a1 b1 a2", "x1 - b1 a2", {2: 1, 3: 2, 4: 3}, id="a run goes with its record"),
        pytest.param("- - a1 - - a1 - - a1", "a1 a1", NOTHING, id="which of several"),
        pytest.param(
            "- - - a1 - - - z1 - - a1", "p1 a1 z1 q1 a1", {3: 1, 7: 2, 10: 4}, id="between neighbours"
        ),
        pytest.param("- a1 b1", "a1 c1", NOTHING, id="what follows is another record"),
        pytest.param("- - a1 b1", "a1 - b1", NOTHING, id="two records tell different places"),
        pytest.param(
            "- - - b1 - - - a1 - - z1 a2 b2",
            "x1 y1 a1 b1 w1 z1 a2 b2",
            {10: 5, 11: 6, 12: 7},
            id="those that cross are left out",
        ),
    ],
)
def test_what_contents_prove(at_source: str, at_target: str, expected: dict[int, int]) -> None:
    assert pairs(prove(source(at_source), target(at_target))) == expected


def test_what_lies_between_pairs_has_no_source_and_is_not_shared_out_by_guess() -> None:
    proof = prove(source("- - a1 - - b1"), target("x1 a1 y1 b1 / - z1"))
    assert (pairs(proof), alone(proof)) == ({2: 1, 5: 3}, [0, 2])
    assert (proof.source_end, proof.rest, proof.rest_holds_records) == (6, (TailRange(104, 2, 4),), True)


def test_the_pairs_end_with_a_batch() -> None:
    proof = prove(source("a1 - - c9"), target("a1 x1 / -"))
    assert (pairs(proof), alone(proof), proof.source_end) == ({0: 0}, [1], 1)
    assert (proof.rest, proof.rest_holds_records) == ((TailRange(102, 1, 2),), False)


@pytest.mark.parametrize(
    ("at_source", "at_target", "source_end"),
    [
        pytest.param("b1 a1", "- a1", 0, id="it was written, and may have been lost otherwise"),
        pytest.param("- - a1", "a1 a2", 0, id="the target ends with another one of its key"),
        pytest.param("- - a1 - a3", "a1 a2", 3, id="and the source goes on with a later one"),
        pytest.param("- - - b1 - a1", "- a1", 0, id="nobody knows whether it was written"),
        pytest.param("- - - b1 - a1 b2", "- a1 b2", 7, id="a later one of its key is there"),
        pytest.param("- - - b1 - a1 b2", "- a1", 0, id="a later one of its key is not there"),
        pytest.param("- - - b1 - a1 c1", "- a1 c1", 0, id="only others are there"),
        pytest.param("- - - ?1 - a1 ?2", "- a1 ?2", 0, id="records without a key are not superseded"),
        pytest.param("x1 - - - b1 - a1", "x1 / - a1", 1, id="up to there it is proved"),
    ],
)
def test_the_flow_goes_on_behind_nothing_that_may_not_be_at_the_target(
    at_source: str, at_target: str, source_end: int
) -> None:
    assert prove(source(at_source), target(at_target)).source_end == source_end


def test_after_a_loss_nobody_knows_how_many_records_came_before() -> None:
    proof = prove(source("c1 d1", start=7, hole_before=ANY_NUMBER), target("a1 b1 c1 d1"))
    assert (pairs(proof), alone(proof), proof.source_end) == ({7: 2, 8: 3}, [0, 1], 9)


def test_nothing_is_proved_of_a_tail_of_which_nothing_is_left() -> None:
    proof = prove(source("- - a1"), target("(3) / - -"))
    assert (proof.found, proof.source_end, proof.rest_holds_records) == ((), 0, False)
    assert proof.rest == (TailRange(103, 2, 3),)
