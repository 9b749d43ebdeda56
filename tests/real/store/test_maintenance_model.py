"""Random appends, merges, crashes and cleaning beside a list that the test keeps: every cut answers what it did.

MIRROR_LEDGER_SEED repeats a run, or makes another: `make soak` tries more.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from ledger.clock import SystemClock
from ledger.facts.cuts import Cut
from ledger.facts.state import WriterClaim
from ledger.store.delta_tables import create_tables, table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import TableUpkeep, Upkeep
from ledger.store.merging import FANOUT, Merge, WrittenFile, data_files
from ledger.store.snapshots import open_ledger
from tests.support.fakes import FakeClock
from tests.support.ledger_rows import row
from tests.support.ledgers import make_older

SEEDS = [int(os.environ["MIRROR_LEDGER_SEED"])] if "MIRROR_LEDGER_SEED" in os.environ else [1]
STEPS = 70
BEGAN_DAYS_AGO = 2
"""The clock of writers; files are as old as the steps that wait say."""
TABLES = ("high_watermarks", "operations")
MARK = {"high_watermarks": "high_watermark", "operations": "kind"}
WRITERS = ("recorder:east", "recorder:west")
Place = tuple[str, int, int]
"""Writer, epoch, round."""


@dataclass
class Model:
    """What was appended, per table in the order of each writer; and cuts with what they counted."""

    path: str
    rng: random.Random
    clock: FakeClock
    log: DeltaFactLog
    held: dict[str, WriterClaim] = field(default_factory=dict)
    rounds: Counter[str] = field(default_factory=Counter)
    appended: dict[str, list[tuple[Place, str]]] = field(default_factory=lambda: {t: [] for t in TABLES})
    cuts: list[tuple[Cut, dict[str, list[tuple[Place, str]]]]] = field(default_factory=list)
    unfinished: list[tuple[str, Merge, Sequence[WrittenFile] | None]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    marks: int = 0

    def step(self) -> None:
        steps: dict[Callable[[], None], int] = {
            self.append_some: 10,
            self.claim: 1,
            self.merge: 2,
            self.crash_before_the_commit: 1,
            self.begin_to_merge: 2,
            self.finish_a_merge: 2,
            self.optimize: 1,
            self.clean: 2,
            self.wait: 2,
            self.cut: 2,
        }
        step = self.rng.choices([*steps], [*steps.values()])[0]
        step()
        self.done[step.__name__] += 1

    def claim(self) -> None:
        writer = self.rng.choice(WRITERS)
        claim = {name: value for name, value in row("writers").items() if name not in STAMPED}
        self.held[writer] = self.log.claim(
            writer, TABLES, {**claim, "event": "claimed", "host": f"h:{self.marks}:1"}
        )
        self.rounds[writer] = 0
        self.marks += 1

    def append_some(self) -> None:
        for _ in range(self.rng.randint(1, FANOUT)):
            self.append()

    def append(self) -> None:
        writer, table = self.rng.choice(WRITERS), self.rng.choice(TABLES)
        self.rounds[writer] += 1
        claim = self.held[writer]
        place = (writer, claim.epoch, self.rounds[writer])
        marks = [self.marks + number for number in range(self.rng.randint(1, 3))]
        self.marks += len(marks)
        self.rng.shuffle(marks)
        rows = [told(table, mark, self.rng) for mark in marks]
        self.log.append(claim, table, self.rounds[writer], rows)
        self.appended[table] += [(place, str(mark)) for mark in marks]

    def upkeep(self, table: str) -> TableUpkeep:
        return TableUpkeep(self.path, table, SystemClock(), keep_hours=1)

    def opened(self, table: str) -> DeltaTable:
        return DeltaTable(table_uri(self.path, table))

    def merge(self) -> None:
        for table in TABLES:
            self.done["merged files"] += self.upkeep(table).merge().merged

    def due(self) -> tuple[TableUpkeep, Merge] | None:
        upkeep = self.upkeep(self.rng.choice(TABLES))
        _, merges = upkeep.due()
        files = data_files(self.opened(upkeep.table))
        anything = [Merge(tuple(self.rng.sample(files, 2)), None)] if len(files) > 1 else []
        found = merges or anything
        return (upkeep, self.rng.choice(found)) if found else None

    def crash_before_the_commit(self) -> None:
        if (due := self.due()) is not None:
            assert due[0].written(due[1])

    def begin_to_merge(self) -> None:
        if (due := self.due()) is not None:
            self.unfinished.append((due[0].table, due[1], due[0].written(due[1])))

    def finish_a_merge(self) -> None:
        """However late: files may be merged, or gone, by then."""
        if self.unfinished:
            table, merge, written = self.unfinished.pop(self.rng.randrange(len(self.unfinished)))
            done = self.upkeep(table).committed(Upkeep(table, 0), merge, written)
            self.done["late merges"] += done.merged > 0
            self.done["given up"] += done.given_up

    def optimize(self) -> None:
        """Another program, which mixes days."""
        self.opened(self.rng.choice(TABLES)).optimize.compact()

    def clean(self) -> None:
        for table in TABLES:
            removed, entries = self.upkeep(table).clean()
            self.done["removed files"] += removed
            self.done["removed entries"] += entries or 0

    def wait(self) -> None:
        hours = self.rng.choice([0.3, 2, 11])
        self.clock.now_s += hours * 3_600
        for table in TABLES:
            make_older(Path(self.path) / table, hours)

    def cut(self) -> None:
        counted = {table: list(rows) for table, rows in self.appended.items()}
        self.cuts.append((open_ledger(self.path).now().cut, counted))

    def check(self, *, most: int | None = None) -> None:
        """Now, and every cut, or so many of them."""
        self.cut()
        ledger = open_ledger(self.path)
        chosen = self.cuts if most is None else self.rng.sample(self.cuts, min(most, len(self.cuts)))
        for cut, counted in (*chosen, self.cuts[-1]):
            at = ledger.at(cut)
            for table in TABLES:
                found = [(place_of(one), str(one[MARK[table]])) for one in at.rows(table, [])]
                for writer in WRITERS:
                    assert of(found, table, writer) == of(counted[table], table, writer), table


STAMPED = {"writer", "writer_epoch", "round", "recorded_at_ms"}


def place_of(one: dict[str, Any]) -> Place:
    return one["writer"], one["writer_epoch"], one["round"]


def of(rows: Sequence[tuple[Place, str]], table: str, writer: str) -> list[tuple[Place, str]]:
    """Those of a writer, as they are read; rows of one append have an order in `operations` alone."""
    mine = [one for one in rows if one[0][0] == writer]
    return mine if table == "operations" else sorted(mine)


def told(table: str, mark: int, rng: random.Random) -> dict[str, object]:
    values: dict[str, object] = {MARK[table]: mark if table == "high_watermarks" else str(mark)}
    if table == "high_watermarks":
        values |= {"topic": rng.choice("abc"), "partition": rng.randint(0, 3)}
    return {name: value for name, value in row(table, **values).items() if name not in STAMPED}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_cut_answers_what_it_did(tmp_path: Path, seed: int) -> None:
    rng, clock = random.Random(seed), FakeClock(time.time() - BEGAN_DAYS_AGO * 86_400)
    path = str(tmp_path / "ledger")
    create_tables(path, now_ms=clock.now_ms())
    model = Model(path, rng, clock, DeltaFactLog(path, clock))
    while set(model.held) != set(WRITERS):
        model.claim()
    for number in range(STEPS):
        model.step()
        if number % 16 == 0:
            model.check(most=1)
    for ending in (model.merge, model.clean, model.wait, model.clean, model.finish_a_merge, model.merge):
        ending()
    model.check()
    print(seed, dict(model.done))
    for name in ("merged files", "removed files", "removed entries", "crash_before_the_commit"):
        assert model.done[name] > 0, name
    assert model.done["late merges"] + model.done["given up"] > 0
    for table in TABLES:
        assert not any(file.is_mixed for file in data_files(model.opened(table))), "days are taken apart"
