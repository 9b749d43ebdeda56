"""Which appends count at a time, or by a cut, is by blocks what all stamps say. MIRROR_LEDGER_SEED repeats a run."""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

from ledger.facts.cuts import LastAppend
from ledger.facts.tables import epoch_and_round, place_of
from ledger.store import appends
from ledger.store.delta_tables import opened_at, table_uri
from ledger.store.maintenance import TableUpkeep, Upkeep
from ledger.store.merging import Merge, data_files
from ledger.store.projections import Projection
from ledger.store.relations import last_appends, named_appends, recorded_from_to_ms, relation_of
from tests.support.fakes import FakeClock
from tests.support.histories import examples
from tests.support.ledger_rows import append, copied_to, row

SEEDS = (
    [int(os.environ["MIRROR_LEDGER_SEED"])]
    if "MIRROR_LEDGER_SEED" in os.environ
    else range(1, examples(check=2, soak=6))
)
TABLE = "high_watermarks"


class Model:
    """Rounds of writers that begin at times of their own, whose clocks differ and step back, blocks and merges."""

    def __init__(self, path: str, rng: random.Random) -> None:
        self.path, self.rng, self.now_ms, self.done = path, rng, 1_000_000, Counter[str]()
        self.places: dict[str, tuple[int, int]] = {}
        self.skew_ms = rng.choice([0, 50, 20_000])

    @property
    def opened(self) -> Any:
        return opened_at(table_uri(self.path, TABLE))

    def step(self) -> None:
        self.now_ms += self.rng.choice([10, 10, 1_000, 40_000])
        writers = [f"recorder:{number}" for number in range(1 + (self.now_ms - 1_000_000) // 60_000)][-4:]
        writer = self.rng.choice(writers)
        epoch, number = self.places.get(writer, (1, 0))
        place = (epoch + 1, 0) if self.rng.random() < 0.1 else (epoch, number + self.rng.randint(1, 3))
        self.places[writer] = place
        at_ms = self.now_ms - self.rng.choice([0, 0, self.rng.randint(0, self.skew_ms)])
        stamp = {"writer": writer, "writer_epoch": place[0], "round": place[1], "recorded_at_ms": at_ms}
        append(
            self.path, TABLE, [row(TABLE, **stamp, partition=part) for part in range(self.rng.randint(1, 3))]
        )
        if self.rng.random() < 0.3:
            self.project()
        if self.rng.random() < 0.2:
            self.merge()

    def project(self) -> None:
        now_ms = self.now_ms + self.rng.choice([0, 60_000])
        done = Projection(self.path, TABLE).extend_when_due(self.opened, now_ms=now_ms, least_rows=1)
        self.done["blocks"] += done

    def merge(self) -> None:
        files = data_files(self.opened)
        if len(files) > 1:
            upkeep = TableUpkeep(self.path, TABLE, FakeClock(self.now_ms / 1000), keep_hours=1)
            merge = Merge(tuple(self.rng.sample(files, self.rng.randint(2, min(6, len(files))))), None)
            self.done["merges"] += upkeep.committed(Upkeep(TABLE, 0), merge, upkeep.written(merge)).written

    def check(self) -> None:
        every = relation_of(self.opened, TABLE)
        for at_ms in (0, self.now_ms + 60_000, *(self.rng.randint(1_000_000, self.now_ms) for _ in range(5))):
            expected = sorted(last_appends(TABLE, every, until_ms=at_ms))
            assert sorted(appends.appends_until(self.path, TABLE, self.opened, at_ms)) == expected, at_ms
            named = [*expected, *map(self.near, expected)]
            self.rng.shuffle(named)
            named = list({one.writer: one for one in named}.values())
            found = appends.appends_named(self.path, TABLE, self.opened, named)
            assert found == named_appends(every, named), named

    def near(self, one: LastAppend) -> LastAppend:
        """Another append, which may be there or not."""
        place = max(0, place_of(one.epoch, one.round) + self.rng.randint(-3, 3))
        return LastAppend(TABLE, one.writer, *epoch_and_round(place), one.recorded_at_ms)


def test_they_are_those_that_all_stamps_say(tmp_path: Path, empty_ledger: Path, monkeypatch: Any) -> None:
    done = Counter[str]()
    around = appends._around

    def counted(*asked: Any) -> Any:
        found = around(*asked)
        done["by all stamps" if found is None else "by blocks"] += 1
        if found is not None:
            done["stamps"] += len(found.stamps)
            done["rows"] += sum(file.rows or 0 for file in data_files(asked[2]))
        return found

    monkeypatch.setattr(appends, "_around", counted)
    for seed in SEEDS:
        model = Model(copied_to(tmp_path / str(seed), empty_ledger), random.Random(seed))
        try:
            for number in range(26):
                model.step()
                if number % 13 == 12:
                    model.check()
        except AssertionError as error:
            raise AssertionError(f"MIRROR_LEDGER_SEED={seed}: {error}") from error
        done += model.done
    assert done["blocks"] > 5 * len(SEEDS)
    assert done["merges"]
    assert done["by blocks"] > 2 * done["by all stamps"]
    assert done["stamps"] < done["rows"] / 2


def test_when_the_first_and_the_last_row_was_recorded_is_what_rows_say(
    tmp_path: Path, empty_ledger: Path
) -> None:
    model = Model(copied_to(tmp_path, empty_ledger), random.Random(1))
    assert appends.recorded_span(TABLE, model.opened) is None
    for _ in range(5):
        model.step()
    times = relation_of(model.opened, TABLE)
    assert appends.recorded_span(TABLE, model.opened) == recorded_from_to_ms(times)
