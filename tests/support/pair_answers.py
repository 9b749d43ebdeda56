"""Answers about groups of generated lives: of the query `group_translation`, and of the algebra."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ledger.offsets.first_unread import Place, first_unread
from ledger.offsets.links import count
from ledger.store import catalog
from ledger.store.sql import run_query
from tests.support.lived_pairs import QUERY
from tests.support.pair_lives import Life
from tests.support.pair_logs import Group, other_than
from tests.support.pair_tables import names_of, recorded_group, recorded_pair, snapshot_of

Asked = tuple[str, int, str]
"""Topic, partition and group."""
Answer = tuple[int | None, str, int, int, int, int]
"""Place and status; repeated, ahead, others, expired."""


def asked(life: Life, here: str) -> Iterator[Group]:
    """Groups that continue from here, as far as both sides were recorded."""
    for group in life.groups:
        if group.at == here and here in group.sides and group.sides[here].seen and life.maps_are_told():
            yield group


def said(place: Place) -> Answer:
    """What a place of the algebra says."""
    repeats, ahead = place.repeats, count(place.ahead)
    return place.offset, str(place.status), repeats, ahead, count(place.others), count(place.expired)


def answers(lives: Sequence[Life], here: str) -> dict[Asked, Answer]:
    """The query's answers."""
    params: dict[str, catalog.Value] = {"from_cluster": here, "to_cluster": other_than(here)}
    rows: list[dict[str, Any]] = run_query(QUERY, params, snapshot_of(lives)).to_pylist()
    return {asked_of(row): answer_of(row) for row in rows}


def asked_of(row: Mapping[str, Any]) -> Asked:
    """What a row of the query answers."""
    return row["source_topic"], row["source_partition"], row["group_id"]


def answer_of(row: Mapping[str, Any]) -> Answer:
    """What a row of the query says."""
    counts = [row[name] or 0 for name in ("repeated", "ahead", "others", "expired")]
    return row["target_offset"], row["status"], *counts


def by_the_algebra(lives: Sequence[Life], here: str) -> dict[Asked, Answer]:
    """The algebra's answers for all groups that are asked of."""
    been = readers_of(lives, other_than(here))
    return {
        (names.topic, names.partition, group.name): said(
            first_unread(
                recorded_pair(life, here),
                replace(recorded_group(life, group), has_been_there=(names.topic, group.name) in been),
            )
        )
        for names, life in zip(names_of(lives), lives, strict=True)
        for group in asked(life, here)
    }


def readers_of(lives: Sequence[Life], cluster: str) -> set[tuple[str, str]]:
    """Topics of a cluster, each with a group that has read a partition of it: several lives may share one."""
    return {
        (names.topic, group.name)
        for names, life in zip(names_of(lives), lives, strict=True)
        for group in life.groups
        if life.has_been(group, cluster)
    }
