"""Lives of two clusters that were long before anything went wrong, recorded in many small rounds."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from ledger.facts.tables import Row
from ledger.store.sql import Relation, Snapshot
from tests.support.group_cases import lived
from tests.support.group_lives import Life
from tests.support.group_logs import STEP_MS
from tests.support.group_tables import snapshot_of

SYNCS, COMMITS = "offset_syncs", "checkpoints"
LIVES = 8
_COMMITTED_AGAIN = 2


@dataclass(frozen=True)
class Instead:
    """A snapshot with other rows of some tables."""

    snapshot: Snapshot
    tables: dict[str, pa.Table] = field(default_factory=dict)

    def relation(self, table: str) -> Relation:
        return self.tables[table] if table in self.tables else self.snapshot.relation(table)


class _AgedLife(Life):
    """Records are written and copied; later everything happens that happens to any life."""

    is_young = True

    def _weights(self) -> dict[Callable[[], None], int]:
        return {self._write: 6, self._copy: 14, self._look: 1} if self.is_young else super()._weights()


def aged(seed: int, world: str) -> Life:
    """A life of some length; one in four is short, and things go wrong from the beginning."""
    if seed % 4 == 0:
        return lived(seed, world)
    life = _AgedLife(seed, world, is_calm=True)
    for _ in life.live(life.chance.randint(40, 200)):
        pass
    life.is_young, life.is_calm = False, seed % 4 != 1
    for _ in range(life.chance.randint(0, 30)):
        life.now_ms += STEP_MS
        life._happen()
        life._pairs.clear()
    return life


def aged_snapshot(worlds: list[tuple[int, str]], chance: random.Random) -> Instead:
    """A ledger of such lives, copies in rounds of few offsets; of some, groups stand near the ends of logs."""
    whole = snapshot_of([aged(seed, world) for seed, world in worlds])
    syncs = whole.relation(SYNCS)
    tables = {SYNCS: pa.Table.from_pylist(list(_finer(syncs, chance)), schema=syncs.schema)}
    if chance.random() < 0.6:
        commits = whole.relation(COMMITS)
        tables[COMMITS] = pa.Table.from_pylist(list(_near_the_ends(syncs, chance)), schema=commits.schema)
    if COMMITS in tables and chance.random() < 0.7:
        tables |= {name: whole.relation(name).slice(0, 0) for name in ("operations", "group_syncs")}
    return Instead(whole, tables)


def _finer(syncs: pa.Table, chance: random.Random) -> Iterator[Row]:
    """Each copy as several, in rounds that follow each other."""
    for whole in syncs.to_pylist():
        row = {**whole, "round": whole["round"] * 1000}
        start, end, there = row["source_start"], row["source_end"], row["target_start"]
        if row["kind"] != "copied" or row["cause"] or end - start < 2:
            yield row
            continue
        inner = {chance.randrange(start + 1, end) for _ in range(chance.randrange(end - start))}
        cuts = sorted({start, end, *inner})
        for number, (first, last) in enumerate(pairwise(cuts)):
            gaps = [
                {
                    **gap,
                    "source_start": max(gap["source_start"], first),
                    "source_end": min(gap["source_end"], last),
                }
                for gap in row["gaps"]
                if gap["source_start"] < last and gap["source_end"] > first
            ]
            records = last - first - sum(gap["source_end"] - gap["source_start"] for gap in gaps)
            yield {
                **row,
                "round": row["round"] + number,
                "source_start": first,
                "source_end": last,
                "target_start": there,
                "target_end": there + records,
                "records": records,
                "gaps": gaps,
            }
            there += records
        assert there == row["target_end"]


def _near_the_ends(syncs: pa.Table, chance: random.Random) -> Iterator[Row]:
    """Commits of groups on all logs, each with an earlier look; some groups have been at one cluster alone."""
    ends: dict[tuple[str, str, str, int], int] = {}
    for row in syncs.to_pylist():
        for side in ("source", "target"):
            log = tuple(row[f"{side}_{name}"] for name in ("cluster", "topic", "topic_id", "partition"))
            ends[log] = max(ends.get(log, 0), row[f"{side}_end"])
    least = chance.choice([0.0, 0.3, 0.5, 0.7, 0.9, 1.0])
    groups = {cluster: range(0, 4, chance.choice([1, 2])) for cluster in sorted({log[0] for log in ends})}
    for (cluster, topic, topic_id, partition), end in sorted(ends.items()):
        for group in groups[cluster]:
            for number in range(_COMMITTED_AGAIN):
                yield {
                    "writer": f"recorder:{cluster}",
                    "writer_epoch": 1,
                    "round": number + 1,
                    "recorded_at_ms": 0,
                    "cluster": cluster,
                    "group_id": f"g{group}",
                    "group_type": "classic",
                    "group_state": "Empty",
                    "topic": topic,
                    "topic_id": topic_id,
                    "partition": partition,
                    "committed_offset": int(chance.uniform(least, 1.05) * end),
                    "leader_epoch": None,
                    "metadata": "",
                    "read_at_ms": 10**12 + number,
                    "absence": None,
                    "transaction_pending": None,
                }
