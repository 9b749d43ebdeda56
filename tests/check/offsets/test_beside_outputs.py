"""Groups of applications that write what they read continue where all that they had written was copied."""

import random
from typing import Any

import pytest

from ledger.facts.direction import Direction
from ledger.facts.tables import place_of
from ledger.offsets.between_clusters import outputs_copied, translate_groups
from ledger.offsets.setting import (
    Choice,
    SourceCommit,
    answered_commit,
    beside_outputs,
    last_commit,
    oddities,
)
from ledger.offsets.sheets import Asked, group_answers
from tests.support.worked_applications import GROUP, INPUT, OUTPUT, WorkedApplication

_WAY = Direction("east", "west")
_OUTPUTS = {GROUP: (OUTPUT,)}
_SURE = random.Random(1)


def placed(life: WorkedApplication, outputs: dict[str, tuple[str, ...]] | None = None) -> dict[str, Any]:
    """Where the group continues at west."""
    at = life.ledger.at(life.ledger.latest())
    found = translate_groups(at, _WAY, outputs=_OUTPUTS if outputs is None else outputs)  # type: ignore[arg-type]
    [place] = found.to_pylist()
    return dict(place)


def last_reading(life: WorkedApplication, *outputs: str) -> int | None:
    return outputs_copied(life.ledger.at(life.ledger.latest()), ("east", "west"), outputs or (OUTPUT,))


def worked(life: WorkedApplication, orders: int) -> None:
    """So many orders more, each with invoices, and a commit behind them."""
    life.order(orders)
    while len(life.invoices) < life.ends[INPUT, 0]:
        life.work(_SURE)
    life.committed = len(life.invoices)


def copied(life: WorkedApplication, *topics: str) -> None:
    for key, end in life.ends.items():
        if key[0] in topics:
            life.mirror(key, end)


@pytest.fixture
def life() -> WorkedApplication:
    """Ten orders were processed, and all is copied and recorded; ten more, of which the invoices are not copied."""
    found = WorkedApplication()
    worked(found, 10)
    found.record()
    copied(found, INPUT, OUTPUT)
    worked(found, 10)
    found.record()
    copied(found, INPUT)
    return found


def test_a_commit_that_runs_ahead_of_what_was_copied_gives_way_to_an_earlier_one(
    life: WorkedApplication,
) -> None:
    assert life.lost_below(20)
    assert not life.lost_below(10)
    assert placed(life, {})["target_offset"] == 20
    found = placed(life)
    assert (found["committed_offset"], found["target_offset"], found["last_committed_offset"]) == (10, 10, 20)
    assert (found["outputs"], found["status"], found["repeated"]) == ("earlier_commit", "exact", 10)
    assert oddities(found) == set()


def test_a_commit_stays_where_all_that_it_stands_for_was_copied(life: WorkedApplication) -> None:
    copied(life, OUTPUT)
    found = placed(life)
    assert (found["outputs"], found["target_offset"], found["repeated"]) == ("copied", 20, 0)
    assert found["last_committed_offset"] is None


def test_groups_of_no_application_are_answered_as_before(life: WorkedApplication) -> None:
    plain, found = placed(life, {}), placed(life, {"shipping": (OUTPUT,)})
    assert found == {**plain, "outputs": None, "last_committed_offset": None}


@pytest.mark.parametrize("outputs", [("nobody-read-it",), (OUTPUT, "nobody-read-it")])
def test_outputs_that_nobody_knows_are_to_be_accepted_by_name(
    life: WorkedApplication, outputs: tuple[str, ...]
) -> None:
    copied(life, OUTPUT)
    assert last_reading(life, *outputs) is None
    found = placed(life, {GROUP: outputs})
    assert (found["outputs"], found["target_offset"]) == ("not_copied", 20)
    assert oddities(found) == {"outputs_not_copied"}


def test_outputs_of_which_nothing_was_ever_copied_leave_no_commit_to_take() -> None:
    life = WorkedApplication()
    worked(life, 10)
    life.record()
    copied(life, INPUT)
    assert last_reading(life) is None
    assert placed(life)["outputs"] == "not_copied"


def test_a_partition_that_nobody_has_read_may_hold_anything(life: WorkedApplication) -> None:
    copied(life, OUTPUT)
    assert last_reading(life) is not None
    life.tell_topic(OUTPUT, partitions=3)
    assert last_reading(life) is None


def test_a_sign_of_life_tells_that_nothing_was_written_since() -> None:
    life = WorkedApplication()
    worked(life, 5)
    life.record()
    copied(life, INPUT, OUTPUT)
    life.committed = 4  # orders without invoices may be committed by and by
    life.record()
    assert placed(life)["outputs"] == "copied", "it was set back: below the commit of then all was copied"
    life.order(3)
    life.invoices += [[], [], []]
    life.committed = 8
    life.record()
    assert placed(life)["committed_offset"] == 5, "nobody has told of the ends since"
    life.record(confirm=True)
    copied(life, INPUT)
    assert (placed(life)["outputs"], placed(life)["committed_offset"]) == ("copied", 8)


def test_a_sign_of_another_epoch_confirms_nothing(life: WorkedApplication) -> None:
    assert last_reading(life) == place_of(1, 1)
    copied(life, OUTPUT)
    life.restart_recorder()
    life.sign()
    assert last_reading(life) == place_of(1, 2)
    life.record()
    assert last_reading(life) == place_of(2, 2)


def test_a_group_that_was_set_back_since_reads_again_what_it_is_to(life: WorkedApplication) -> None:
    life.committed = 3
    life.record()
    found = placed(life)
    assert (found["committed_offset"], found["outputs"]) == (3, "copied")


def test_share_groups_continue_at_earlier_offsets_as_others_do(life: WorkedApplication) -> None:
    life.share_group("workers")
    asked = Asked(_WAY, Choice(), outputs={"workers": (OUTPUT,), **_OUTPUTS})
    found = {row["group_id"]: row for row in group_answers(life.ledger.at(life.ledger.latest()), asked)}  # type: ignore[arg-type]
    assert found["workers"]["group_type"] == "share"
    for group in ("workers", GROUP):
        assert (found[group]["target_offset"], found[group]["last_committed_offset"]) == (10, 20)


def test_a_commit_on_a_topic_that_was_recreated_since_says_nothing_of_the_last_one() -> None:
    place = {"source_topic": INPUT, "source_partition": 0, "target_topic": INPUT, "target_partition": 0}
    last = {"group_id": GROUP, **place, "committed_offset": 3, "target_offset": 3}
    then = {**last, "committed_offset": 500, "target_offset": None}
    [found] = beside_outputs([last], [then], _OUTPUTS)
    assert (found["outputs"], found["target_offset"]) == ("not_copied", 3)


def test_of_an_earlier_commit_nobody_knows_when_it_was_made() -> None:
    last = SourceCommit(topic_id="T", leader_epoch=3, made_after_ms=700)
    earlier, same = {"last_committed_offset": 20, "committed_offset": 10}, {"committed_offset": 20}
    assert answered_commit(earlier, last) == SourceCommit(topic_id="T")
    assert answered_commit(same, last) == last
    assert last_commit(earlier) == last_commit(same) == 20


@pytest.mark.parametrize("cause", ["retention", "deleted_records", "skipped"])
def test_what_was_lost_of_the_outputs_is_not_copied(life: WorkedApplication, cause: str) -> None:
    """Nobody writes again what an application takes for written: it continues before that."""
    last = {key: end for key, end in life.ends.items() if key[0] == OUTPUT and end > life.copied[key]}
    for key in last:
        life.lose(key, 1, cause)
    copied(life, INPUT, OUTPUT)
    assert life.lost_below(20)
    found = placed(life)
    assert (found["committed_offset"], found["outputs"], found["last_committed_offset"]) == (
        10,
        "earlier_commit",
        20,
    )


def test_outputs_that_retention_took_before_anybody_copied_them_are_not_copied(
    life: WorkedApplication,
) -> None:
    life.tell_log_start()
    assert placed(life)["committed_offset"] == 10


@pytest.mark.parametrize(
    ("cause", "is_seen"), [("filtered", True), ("control", False), ("aborted", False), ("compacted", False)]
)
def test_of_gaps_only_what_applications_would_see_is_missing(
    life: WorkedApplication, cause: str, is_seen: bool
) -> None:
    key = next(key for key, end in life.ends.items() if key[0] == OUTPUT and end > life.copied[key])
    life.mirror_without(key, life.copied[key], cause, is_seen=is_seen)
    copied(life, INPUT, OUTPUT)
    assert bool(life.lost_below(20)) is is_seen
    assert placed(life)["committed_offset"] == (10 if is_seen else 20)


@pytest.mark.parametrize("seed", range(10))
def test_no_commit_up_to_then_stands_for_what_nobody_copied(seed: int) -> None:
    """By what lies at west: nothing that was written for orders below the commit is missing there."""
    print(f"seed {seed}")
    choices, life, loses = random.Random(seed), WorkedApplication(), seed % 3 == 1
    taken = ahead = 0

    def happens() -> None:
        for _ in range(choices.randrange(4)):
            life.work(choices)

    for _ in range(30):
        life.order(choices.randrange(4))
        happens()
        for key in life.ends:
            if choices.random() < 0.5:
                life.mirror(key, choices.randrange(1, 6))
            if loses and key[0] == OUTPUT and choices.random() < 0.02:
                life.lose(key, choices.randrange(1, 3))
        life.record(happens, confirm=choices.random() < 0.3)
        if choices.random() < 0.05:
            life.restart_recorder()
        if choices.random() < 0.2:
            commit = commit_of_then(life)
            assert life.lost_below(commit) == []
            taken += commit > 0
            ahead += bool(life.lost_below(life.committed))
    life.record(confirm=True)
    copied(life, INPUT, OUTPUT)
    assert life.lost_below(commit_of_then(life)) == []
    assert loses or commit_of_then(life) == life.committed
    assert taken or loses
    assert ahead


def commit_of_then(life: WorkedApplication) -> int:
    """The group's commit as it was recorded by the last reading of which all was copied; 0 where there is none."""
    last = last_reading(life)
    found = [offset for at, offset in life.recorded_commits if last is not None and at <= last]
    return max(found, default=0)
