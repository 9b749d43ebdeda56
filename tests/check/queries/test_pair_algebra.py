"""The SQL and the algebra state the same rule of the first unread record.

A query takes longer to be planned than to be answered, so several lives are the topics of one ledger.
"""

from collections import Counter
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.offsets.statuses import TranslationStatus
from tests.support.algebra.first_unread import first_unread
from tests.support.cases import Case, cases_of
from tests.support.group_cases import (
    QUERY,
    SEEDS,
    SIDES,
    answer_of,
    answers,
    asked_of,
    by_the_algebra,
    lived,
    lived_case,
    lives_of,
    said,
)
from tests.support.group_ledgers import Log, PairLedger
from tests.support.group_logs import WORLDS
from tests.support.group_tables import names_of
from tests.support.histories import examples
from tests.support.query_mutants import LaidOut, as_table

LIVES = st.lists(st.tuples(st.integers(0, 2**32), st.sampled_from(sorted(WORLDS))), min_size=12, max_size=12)
NOT_IN_LIVES = frozenset(
    {TranslationStatus.NO_COMMIT_EMPTY, TranslationStatus.NO_COMMIT, TranslationStatus.HIDDEN}
)
"""Statuses that no group of a life has: each has a commit on its only partition, and recorders may see all."""
CHANGED = [
    ("range_reads", "x.range_start, r.there_to)", "x.range_start)"),
    ("there_ranges", "s.is_written and not s.is_claimed", "s.is_written and s.is_claimed"),
    ("group_reads", "coalesce(here_to, 0)", "coalesce(here_to + 1, 0)"),
]
"""A view, and what of it is replaced: repeats that the algebra knows to be read, or skips what is unread."""
PRINTED = settings(print_blob=True, deadline=None, max_examples=examples(check=1, soak=3))
COLUMNS = [column.name for column in QUERY.columns]


@PRINTED
@given(LIVES)
def test_sql_places_groups_as_the_algebra(worlds: list[tuple[int, str]]) -> None:
    lives = [lived(seed, world) for seed, world in worlds]
    for here in SIDES:
        found = answers(lives, here)
        for asked, expected in by_the_algebra(lives, here).items():
            told = next(
                life.told()
                for names, life in zip(names_of(lives), lives, strict=True)
                if (names.topic, names.partition) == asked[:2]
            )
            assert found[asked] == expected, (here, asked, worlds, told)


@pytest.mark.parametrize("case", cases_of(QUERY.name), ids=lambda case: case.title)
def test_cases_expect_what_the_algebra_says(case: Case) -> None:
    ledger, clusters = PairLedger(case), case.blocks["params"][0]
    expected = [
        row
        for row in case.expected(QUERY).to_pylist()
        if row["target_offset"] is not None and row["absence"] is None
    ]
    assert expected
    for row in expected:
        here = Log(clusters["from_cluster"], row["source_topic"], row["source_partition"])
        there = Log(clusters["to_cluster"], row["target_topic"], row["target_partition"])
        place = first_unread(ledger.pair(here, there), ledger.group(row["group_id"], here, there))
        assert said(place) == answer_of(row), (asked_of(row), there)


def test_lives_have_what_is_compared() -> None:
    """Every status that a life can lead to, many places that are no ends, and every count above 0."""
    found = [
        place for seed in SEEDS for here in SIDES for place in by_the_algebra(lives_of(seed), here).values()
    ]
    statuses = Counter(TranslationStatus(status) for _, status, *_ in found)
    assert statuses.keys() == set(QUERY.statuses) - NOT_IN_LIVES
    assert statuses[TranslationStatus.AT_END] < len(found) / 2
    assert all(sum(counts[kind] > 0 for _, _, *counts in found) >= 10 for kind in range(4))


@pytest.mark.parametrize(("view", "text", "other"), CHANGED)
def test_a_changed_view_differs_from_the_algebra(view: str, text: str, other: str) -> None:
    assert any(differs(seed, here, view, text, other) for seed in SEEDS for here in SIDES)


def differs(seed: int, here: str, view: str, text: str, other: str) -> bool:
    """Whether any answer is another one than the algebra's when a view says something else."""
    laid = laid_out(seed, here)
    assert text in laid.views[view]
    laid.connection.execute("begin")
    try:
        laid.connection.execute(as_table(laid.views[view].replace(text, other)))
        rows = [dict(zip(COLUMNS, values, strict=True)) for values in laid.answer_beyond(view)]
    finally:
        laid.connection.execute("rollback")
    found = {asked_of(row): answer_of(row) for row in rows}
    return any(found.get(key) != place for key, place in by_the_algebra(lives_of(seed), here).items())


@cache
def laid_out(seed: int, here: str) -> LaidOut:
    return LaidOut(QUERY, lived_case(seed, here))
