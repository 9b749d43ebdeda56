"""Lag: against what the source holds that is to be copied, and over time at every reading."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from ledger.facts.syncs import SyncCause
from ledger.store import catalog
from ledger.store.sql import Snapshot, run_query
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.cases import Case, cases_of
from tests.support.histories import examples
from tests.support.ledger_rows import row
from tests.support.two_way import THERE, TwoWays, lived, topic_of

# -- Over time -------------------------------------------------------------------------------------

AT_LAST_MS = 10**15
SEEDS, LOGS = examples(check=[0, 2], soak=[*range(6)]), 4
SAME = ("last_stable", "high_watermark", "mirrored_end", "lag_records", "lag_records_to_high_watermark")
SINCE = ("behind_since_ms", "lag_ms", "lag_ms_bound", "measured_at_ms", "status")
TWICE_IN_A_ROUND = ("behind", "B", 0)
"""A round reads a partition once; the case has several reads to show which one would count."""
STAYS = {("t", "T", 0), ("t", "T", 6)}
"""Some was decided to stay at the source, or was settled: over time that counts until the flow has passed it."""
Answer = dict[tuple[str, str, int], dict[str, object]]


def answered(query: str, snapshot: Snapshot, **params: catalog.Value) -> Answer:
    rows = run_query(catalog.query(query), params, snapshot).to_pylist()
    return {
        (found["source_topic"], found["source_topic_id"], found["source_partition"]): found for found in rows
    }


def at_one_instant(snapshot: Snapshot, flow: str, at_ms: int) -> Answer:
    return answered("lag_over_time", snapshot, flow=flow, first_ms=at_ms, last_ms=at_ms, step_ms=1)


@pytest.mark.parametrize("case", cases_of("replication_lag"), ids=lambda case: case.title)
def test_the_last_look_tells_what_replication_lag_tells(case: Case) -> None:
    """But since when, where the source took records back: readings before that are not compared."""
    flow = str(case.blocks["params"][0]["flow"])
    lag = answered("replication_lag", case, flow=flow)
    over_time = at_one_instant(case, flow, AT_LAST_MS)
    mapped = {key for key, found in lag.items() if found["source_end"] is not None}
    assert mapped == set(over_time)
    columns = SAME if case.title.startswith("the last round") else SAME + SINCE
    for key in mapped - {TWICE_IN_A_ROUND} - (STAYS if case.title.endswith("or what stays there") else set()):
        assert {name: over_time[key][name] for name in columns} == {
            name: lag[key][name] for name in columns
        }, key


@pytest.mark.parametrize("seed", SEEDS)
def test_every_reading_tells_what_replication_lag_told_then(seed: int) -> None:
    """Histories of growing logs, rounds, reads and heartbeats; each reading against the ledger as it was then."""
    print(f"seed {seed}")
    grown = Growing(random.Random(seed))
    for _ in range(40):
        grown.live()
    now = grown.ledger.at(grown.ledger.latest())
    readings = run_query(
        catalog.query("lag_over_time"), {"flow": "f", "first_ms": 0, "last_ms": grown.now_ms}, now
    ).to_pylist()
    assert len(readings) == len(grown.then_by_reading)
    for reading in readings:
        then = grown.then_by_reading[reading["source_partition"], reading["at_ms"]]
        assert {name: reading[name] for name in SAME + SINCE} == {name: then[name] for name in SAME + SINCE}


@dataclass(slots=True)
class Log:
    """Where a log ends, how far it is copied, and what a recorder has read last."""

    end: int = 0
    copied: int = 0
    read_end: int = 0
    is_started: bool = False


class Growing:
    """A flow that copies partitions, a recorder that looks at them, and what was answered at each reading.

    A query takes longer to be planned than to be answered, so several logs are the partitions of one flow.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.ledger = MemoryLedger()
        self.now_ms = 1
        self.logs = [Log() for _ in range(LOGS)]
        self.rounds = {"flow:f": 1, "recorder:E": 1}
        self.then_by_reading: dict[tuple[int, int], dict[str, object]] = {}
        self.ledger.append(
            "writers", [self._row("writers", "flow:f", event="claimed", flow="f", source_cluster="E")]
        )
        for number in range(LOGS):
            self._copy(number, 0)
        self._read(range(LOGS))

    def live(self) -> None:
        """Something happens to some of the logs, later than all before."""
        self.now_ms += self.chance.randint(1, 50)
        some = [number for number in range(LOGS) if self.chance.random() < 0.6]
        match self.chance.choice(("write", "write", "copy", "copy", "reading")):
            case "write":
                for number in some:
                    self.logs[number].end += self.chance.randint(1, 9)
            case "copy":
                for number in some:
                    self._copy(number, self.chance.randint(0, self._left(number)))
            case _:
                self._look()

    def _left(self, number: int) -> int:
        return self.logs[number].end - self.logs[number].copied

    def _copy(self, number: int, records: int) -> None:
        log = self.logs[number]
        kind = "copied" if records else "started"
        if kind == "started" and log.is_started:
            return
        start, log.copied, log.is_started = log.copied, log.copied + records, True
        at = {
            "source_start": start,
            "source_end": log.copied,
            "target_start": start,
            "target_end": log.copied,
        }
        where = {"source_topic": "t", "source_topic_id": "T", "source_partition": number}
        made = self._row("offset_syncs", "flow:f", flow="f", kind=kind, **where, **at)
        self.ledger.append("offset_syncs", [made])

    def _look(self) -> None:
        """Ends that are others than before are recorded; else that all are as they were."""
        if changed := [number for number, log in enumerate(self.logs) if log.end != log.read_end]:
            self._read(changed)
        else:
            made = self._row("writers", "recorder:E", event="alive", source_cluster="E")
            self.ledger.append("writers", [made])
            self._answer(range(LOGS))

    def _read(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            log = self.logs[number]
            log.read_end = log.end
            ends = {"last_stable": log.end, "high_watermark": log.end, "read_at_ms": self.now_ms}
            where = {"cluster": "E", "topic": "t", "topic_id": "T", "partition": number}
            made = self._row("high_watermarks", "recorder:E", **where, **ends)
            self.ledger.append("high_watermarks", [made])
        self._answer(numbers)

    def _answer(self, numbers: Sequence[int]) -> None:
        """What is answered now of those that were looked at."""
        found = answered("replication_lag", self.ledger.at(self.ledger.latest()), flow="f")
        for number in numbers:
            self.then_by_reading[number, self.now_ms] = found["t", "T", number]

    def _row(self, table: str, writer: str, **values: object) -> dict[str, object]:
        self.rounds[writer] += 1
        stamp = {
            "writer": writer,
            "writer_epoch": 1,
            "round": self.rounds[writer],
            "recorded_at_ms": self.now_ms,
        }
        return row(table, **{**stamp, **values})


def recorded_lives(lives: Sequence[TwoWays]) -> MemoryLedger:
    """Each life at a topic of its own, with the end of its source as it is much later."""
    ledger = MemoryLedger()
    ledger.append("writers", [row("writers", event="claimed", flow=THERE, source_cluster="east")])
    for number, life in enumerate(lives):
        ends = row(
            "high_watermarks",
            cluster="east",
            topic=topic_of(number),
            topic_id=f"east-id-{number}",
            last_stable=life.east.end,
            high_watermark=life.east.end,
            read_at_ms=10**12,
        )
        ledger.append("offset_syncs", life.offset_syncs(number))
        ledger.append("high_watermarks", [ends])
    return ledger


def test_lives_that_go_both_ways_have_the_lag_of_replication_lag() -> None:
    """What other flows wrote is counted otherwise here: by sums, not row by row."""
    ledger = recorded_lives([lived(number, is_two_way=True) for number in range(40)])
    at = ledger.at(ledger.latest())
    lag, over_time = answered("replication_lag", at, flow=THERE), at_one_instant(at, THERE, AT_LAST_MS)
    columns = SAME + SINCE
    assert {key: {name: found[name] for name in columns} for key, found in over_time.items()} == {
        key: {name: found[name] for name in columns} for key, found in lag.items()
    }


# -- Of flows that go both ways --------------------------------------------------------------------

LIVES = 60


def lag_by_life(lives: list[TwoWays]) -> dict[str, int]:
    """Lag that the ledger tells, by topic, when all that was recorded counts."""
    ledger = recorded_lives(lives)
    answer = run_query(catalog.query("replication_lag"), {"flow": THERE}, ledger.at(ledger.latest()))
    return {found["source_topic"]: found["lag_records"] for found in answer.to_pylist()}


@pytest.mark.parametrize("is_two_way", [True, False], ids=["both-ways", "one-way"])
def test_lag_counts_what_is_to_be_copied(is_two_way: bool) -> None:
    """Never less. More only where the other flow's copies are left of what its source took back."""
    lives = [lived(seed, is_two_way=is_two_way) for seed in range(LIVES)]
    told = lag_by_life(lives)
    left_out = 0
    for number, life in enumerate(lives):
        behind = life.east.records[life.there.source_end :]
        to_copy = sum(not record.is_mirrored for record in behind)
        left_out += len(behind) - to_copy
        lag = told[topic_of(number)]
        if SyncCause.SOURCE_TRUNCATED in {recorded.sync.cause for recorded in life.back.recorded}:
            assert to_copy <= lag <= len(behind), number
        else:
            assert lag == to_copy, number
    assert (left_out > LIVES) == is_two_way, "copies by the other flow are in the way"
