"""Whole lives of flows: the seeds that are chosen, and what their choice is to reach."""

import tomllib
from collections import Counter

import pytest

from tests.simulation.coverage import COMMON, WANTED, missing, seldom_answered, wanted_of
from tests.simulation.seeds import Life, command, live, live_all, plot_of, simulate
from tests.simulation.selection import COMMAND, chosen_seeds, covering, file_of

pytestmark = pytest.mark.long

# -- Lives -----------------------------------------------------------------------------------------
# Each seed is one life of some flows. The seeds here are chosen (`tests.simulation.selection`); any other is lived
# by `--simulation-seed N`, and `make soak` goes on with seeds that nobody chose for as long as it is let.


@pytest.mark.fault(1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 20, 21, 23, 25, 26, 27, 28)
@pytest.mark.fault(29, 30, 31, 32, 33, 35, 40, 73, 78, 83, 84, 85)
@pytest.mark.timeout(300)
def test_every_record_arrives_exactly_once_and_is_accounted_for(request: pytest.FixtureRequest) -> None:
    """The chosen seeds, which together come to everything that a simulation is for."""
    seed = request.config.getoption("--simulation-seed")
    if seed is not None:
        simulate(seed, plot_of(seed))
        return
    lives = live_all(chosen_seeds(), processes=2, timeout_s=270)
    for life in lives:
        if life.failure:
            pytest.fail(f"{command(life.seed)}\n{life.failure}", pytrace=False)
    assert {life.seed for life in lives} == set(chosen_seeds())
    tally = sum((life.tally for life in lives), Counter[str]())
    lacking = missing(WANTED, tally)
    assert lacking == [], f"no chosen seed comes to these any more; choose them anew: {COMMAND}"
    assert seldom_answered(tally) == []


@pytest.mark.parametrize("seed", [31])
def test_copies_from_before_a_resync_count_where_the_source_deleted_their_records(seed: int) -> None:
    """Of both engines; in such lives groups once passed the only copies."""
    simulation = simulate(seed, plot_of(seed))
    told = [(row["kind"], row["cause"]) for row in simulation.rows("offset_syncs")]
    assert ("lost", "retention") in told[told.index(("superseded", "resync")) :]
    simulation.check_queried_moves()


@pytest.mark.timeout(120)
def test_a_seed_repeats_itself_in_another_process() -> None:
    """Sets have another order there."""
    seeds = [3, 8]
    assert live_all(seeds, processes=1, timeout_s=100) == [live(seed) for seed in seeds]


# -- Seeds -----------------------------------------------------------------------------------------


def life(seed: int, *reached: str, copied: int = 9) -> Life:
    return Life(seed, Counter({"copied": copied, **dict.fromkeys(reached, 1)}))


def test_the_rarest_is_covered_first_and_may_cover_the_rest() -> None:
    lives = [life(1, "a"), life(2, "a", "b"), life(3, "b"), life(4, "a", "b", "c")]
    assert covering(lives, ("a", "b", "c"), times=1) == [4]


def test_each_name_is_covered_so_many_times_or_as_often_as_it_can_be() -> None:
    lives = [life(1, "a"), life(2, "a"), life(3, "a"), life(4, "b")]
    assert covering(lives, ("a", "b", "never"), times=2) == [4, 1, 2]


def test_a_cheap_seed_is_preferred_until_a_dear_one_reaches_more_for_its_cost() -> None:
    assert covering([life(1, "a", copied=99), life(2, "a")], ("a",), times=1) == [2]
    lives = [life(1, "a", "b", copied=14), life(2, "a"), life(3, "b")]
    assert covering(lives, ("a", "b"), times=1) == [1]


def test_what_is_covered_already_makes_no_seed_worth_more() -> None:
    lives = [life(1, "rare", "a"), life(2, "a", "b", copied=12), life(3, "b")]
    assert covering(lives, ("rare", "a", "b"), times=1) == [1, 3]


def test_the_file_holds_what_was_chosen() -> None:
    told = tomllib.loads(file_of(1000, list(range(200)), [7, 300]))
    assert told == {"covering": list(range(200)), "drawn": [7, 300]}


def test_no_seed_is_chosen_twice() -> None:
    assert len(set(chosen_seeds())) == len(chosen_seeds()) >= 25


def test_of_more_seeds_more_is_wanted() -> None:
    assert [wanted_of(seeds) for seeds in (299, 300, 999, 1000)] == [(), COMMON, COMMON, WANTED]


def test_what_is_missing_is_what_was_never_counted() -> None:
    assert missing(("a", "b", "c"), Counter({"a": 2, "b": 0})) == ["b", "c"]
