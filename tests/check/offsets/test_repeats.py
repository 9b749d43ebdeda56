"""What groups would read again: held against the objective, and what another offset would skip and repeat."""

from typing import Any

import pytest

from ledger.config.values import Objective, objections
from ledger.errors import PreconditionError
from ledger.offsets.sheets import (
    CommitsRead,
    commits_age,
    repeat_figures,
    repeat_forecast,
    repeat_words,
    require_few_repeats,
)
from ledger.offsets.statuses import TranslationStatus
from tests.support.algebra.first_unread import Difference, Place, difference
from tests.support.seen_pairs import place

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
        "--accept objective",
    ]


def test_unknown_is_not_few() -> None:
    said = refused(answer("a", 0, 1), answer("a", 1, None, "no_map"))
    assert "what is repeated is unknown" in said
    assert "(orders partition 1: unknown, status no_map; orders partition 0: 1 record, status exact)" in said


PLACES = [place(repeated=2), place(source_partition=1, repeated=3), place(group_id="audit", repeated=0)]
READ = CommitsRead(at_ms=4_000, unseen_seconds=70.0)


def test_commits_that_are_read_again_make_it_exact() -> None:
    assert repeat_words(repeat_forecast(PLACES, None)) == "5 records"


def test_commits_that_nobody_reads_any_more_make_it_at_least_so_many() -> None:
    figures = repeat_forecast(PLACES, READ)
    assert (figures["repeated"], figures["repeated_bound"], figures["commits_read_at_ms"]) == (
        5,
        "at_least",
        4_000,
    )
    assert repeat_words(figures) == "at least 5 records"
    assert commits_age(figures) == " (commits last recorded 1970-01-01 00:00:04Z, 1 min 10 s unseen)"
    assert commits_age(repeat_forecast(PLACES, None)) == ""
    never = repeat_forecast(PLACES, CommitsRead(None, None))
    assert commits_age(never) == " (commits were never recorded)"
    unknown = repeat_forecast([place(repeated=None)], READ)
    assert repeat_words(unknown) == "an unknown number of records"


@pytest.mark.parametrize("status", ["unplaced", "lost", "expired_on_target"])
def test_records_that_nobody_can_place_make_it_at_least_so_many(status: str) -> None:
    """A driver has copied them and not recorded where: the group reads again what it had read of them.

    That records were lost, or have expired, is said first, and may hide it.
    """
    places = [place(repeated=2), place(source_partition=1, repeated=0, status=status)]
    figures = repeat_forecast(places, None)
    assert repeat_words(figures) == "at least 2 records"
    assert commits_age(figures) == "", "commits are read again before groups move"
    [figure] = repeat_figures(places)
    assert (figure.value, figure.is_at_least) == (2, True)
    assert repeat_words(repeat_forecast(places[:1], None)) == "2 records"


@pytest.mark.parametrize(
    ("read", "is_met"),
    [
        (None, True),
        (CommitsRead(4_000, 59.0), True),
        (READ, False),
        (CommitsRead(4_000, None), False),
        (CommitsRead(None, None), False),
    ],
)
def test_an_objective_of_repeats_is_not_met_by_commits_of_long_ago(
    read: CommitsRead | None, is_met: bool
) -> None:
    figures = list(repeat_figures(PLACES, read, fresh_seconds=60.0))
    assert [figure.of for figure in figures] == ["group 'audit'", "group 'billing'"]
    found = objections({Objective.MAX_REPEATS_PER_GROUP: 5}, figures)
    assert [code for code, _ in found] == ([] if is_met else ["max_repeats_per_group_unknown"] * 2)
    assert [code for code, _ in objections({Objective.MAX_REPEATS_PER_GROUP: 4}, figures)][-1].endswith(
        "exceeded"
    )


def test_skips_are_what_is_unread_below_and_repeats_what_is_read_behind() -> None:
    place = Place(offset=4, status=TranslationStatus.EXACT, unread=((4, 6), (9, 12)), read=((0, 4), (6, 9)))
    assert place.repeated == ((6, 9),)
    assert difference(place, 4) == Difference((), ((6, 9),))
    assert difference(place, 2) == Difference((), ((2, 4), (6, 9)))
    later = difference(place, 10)
    assert later is not None
    assert (later.skipped, later.skips, later.repeated, later.repeats) == (((4, 6), (9, 10)), 3, (), 0)


def test_without_a_place_there_is_nothing_to_compare_with() -> None:
    assert difference(Place(offset=None, status=TranslationStatus.NO_MAP), 3) is None
