"""How seeds are chosen: whatever is wanted is reached several times, rare things first, at little cost."""

import tomllib
from collections import Counter

from tests.simulation.coverage import COMMON, WANTED, missing, wanted_of
from tests.simulation.seeds import Life
from tests.simulation.selection import chosen_seeds, covering, file_of


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
    assert len(set(chosen_seeds())) == len(chosen_seeds()) >= 40


def test_of_more_seeds_more_is_wanted() -> None:
    assert [wanted_of(seeds) for seeds in (299, 300, 999, 1000)] == [(), COMMON, COMMON, WANTED]


def test_what_is_missing_is_what_was_never_counted() -> None:
    assert missing(("a", "b", "c"), Counter({"a": 2, "b": 0})) == ["b", "c"]
