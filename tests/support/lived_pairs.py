"""Generated lives of two clusters as cases of `group_translation`, on which mutants of its views are tried.

What cuts logs into pieces shows only where much has happened: by hand that would be hundreds of rows.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from ledger.store import catalog
from ledger.store.catalog import Query, Value
from ledger.store.sql import Relation, run_query
from tests.simulation.ledger.tables import MemorySnapshot
from tests.support.cases import Case
from tests.support.pair_lives import Life
from tests.support.pair_logs import SKEW_MS, WORLDS, other_than
from tests.support.pair_tables import snapshot_of

QUERY = catalog.query("group_translation")
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
