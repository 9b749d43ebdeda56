"""Generated lives of two clusters as cases of `offset_translation`, answered by the query and by the algebra."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa

from ledger.store import catalog
from ledger.store.catalog import Query, Value
from ledger.store.sql import Relation, run_query
from tests.simulation.ledger.tables import MemorySnapshot
from tests.support.algebra.first_unread import Place, first_unread
from tests.support.algebra.links import count
from tests.support.cases import Case
from tests.support.group_lives import Life
from tests.support.group_logs import SKEW_MS, WORLDS, Group, other_than
from tests.support.group_tables import names_of, recorded_group, recorded_pair, snapshot_of

# -- Lives as cases --------------------------------------------------------------------------------
# What cuts logs into pieces shows only where much has happened: by hand that would be hundreds of rows.

QUERY = catalog.query("offset_translation")
SEEDS = (3, 5)
SIDES = ("east", "west")
_LIVES = 20
"""Of each world in a ledger."""
_CLOCK_STEP_MS = 20_000


@dataclass(frozen=True, eq=False)
class LivedCase(Case):
    """Its answer is that of the query as it is, which `test_pair_algebra` holds to the algebra."""

    seed: int
    here: str

    def relation(self, table: str) -> Relation:
        return _ledger_of(self.seed).relation(table)

    def params(self, query: Query) -> Mapping[str, Value]:  # noqa: ARG002 (as of every case)
        return {"from_cluster": self.here, "to_cluster": other_than(self.here)}

    def expected(self, query: Query) -> pa.Table:
        return run_query(query, self.params(query), self)


class _Troubled(Life):
    """A life in which flows lose ends and copy again more often.

    Its clocks differ by whole steps, so that rows are recorded just as far apart as clocks may be, too.
    """

    def _weights(self) -> dict[Callable[[], None], int]:
        often = {self._lose_the_end: 3, self._resync: 4, self._recreate: 0}
        return {**super()._weights(), **(often if self.chance.random() < 0.5 else {})}

    def _skew(self) -> int:
        return self.chance.randrange(-SKEW_MS, SKEW_MS + 1, _CLOCK_STEP_MS)


def lived(seed: int, world: str) -> Life:
    """A life of some length, in which things go wrong."""
    life = _Troubled(seed, world, is_calm=False)
    for _ in life.live(life.chance.randint(5, 60)):
        pass
    return life


def lived_case(seed: int, here: str) -> LivedCase:
    """The lives of a seed, asked from one side."""
    return LivedCase(QUERY.name, f"lives of seed {seed} from {here}", {}, seed, here)


@cache
def lives_of(seed: int) -> Sequence[Life]:
    """Lives of every world, the same each time."""
    chance = random.Random(seed)
    worlds = [world for world in sorted(WORLDS) for _ in range(_LIVES)]
    return [lived(chance.randrange(2**32), world) for world in worlds]


@cache
def _ledger_of(seed: int) -> MemorySnapshot:
    return snapshot_of(lives_of(seed))


# -- Both answers about a group --------------------------------------------------------------------

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
