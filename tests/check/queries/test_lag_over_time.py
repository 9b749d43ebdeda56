"""Lag over time: at the last reading that of replication_lag, at every reading that of the ledger as it was then."""

import random

import pytest

from ledger import catalog
from ledger.adapters.duck.engine import Snapshot, run_query
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.cases import Case, cases_of
from tests.support.ledger_rows import row
from tests.support.two_way import THERE, lived, topic_of

AT_LAST_MS = 10**15
SAME = ("last_stable", "high_watermark", "mirrored_end", "lag_records", "lag_records_to_high_watermark")
SINCE = ("behind_since_ms", "lag_ms", "lag_ms_bound", "measured_at_ms", "status")
TWICE_IN_A_ROUND = ("behind", "B", 0)
"""A round reads a partition once; the case has several reads to show which one would count."""
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
    for key in mapped - {TWICE_IN_A_ROUND}:
        assert {name: over_time[key][name] for name in columns} == {
            name: lag[key][name] for name in columns
        }, key


@pytest.mark.parametrize("seed", range(20))
def test_every_reading_tells_what_replication_lag_told_then(seed: int) -> None:
    """Histories of a growing log, rounds, reads and heartbeats; each reading against the ledger as it was then."""
    print(f"seed {seed}")
    grown = Growing(random.Random(seed))
    for _ in range(40):
        grown.live()
    now = grown.ledger.at(grown.ledger.latest())
    readings = run_query(
        catalog.query("lag_over_time"), {"flow": "f", "first_ms": 0, "last_ms": grown.now_ms}, now
    ).to_pylist()
    assert len(readings) == len(grown.then_by_look)
    for reading in readings:
        then = grown.then_by_look[reading["at_ms"]]
        assert {name: reading[name] for name in SAME + SINCE} == {name: then[name] for name in SAME + SINCE}


class Growing:
    """A flow that copies one partition, a recorder that readings at it, and what was answered at each reading."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.ledger = MemoryLedger()
        self.now_ms = 1
        self.end = self.copied = self.read_end = 0
        self.rounds = {"flow:f": 1, "recorder:E": 1}
        self.then_by_look: dict[int, dict[str, object]] = {}
        self.ledger.append(
            "writers", [self._row("writers", "flow:f", event="claimed", flow="f", source_cluster="E")]
        )
        self._copy(0)
        self._read()

    def live(self) -> None:
        """Something happens, later than all before."""
        self.now_ms += self.chance.randint(1, 50)
        match self.chance.choice(("write", "write", "copy", "copy", "reading")):
            case "write":
                self.end += self.chance.randint(1, 9)
            case "copy":
                self._copy(self.chance.randint(0, self.end - self.copied))
            case _ if self.end == self.read_end:
                self._sign()
            case _:
                self._read()

    def _copy(self, records: int) -> None:
        start, self.copied = self.copied, self.copied + records
        kind = "copied" if records else "started"
        if kind == "started" and self.rounds["flow:f"] > 2:
            return
        at = {
            "source_start": start,
            "source_end": self.copied,
            "target_start": start,
            "target_end": self.copied,
        }
        made = self._row(
            "offset_syncs", "flow:f", flow="f", source_topic="t", source_topic_id="T", kind=kind, **at
        )
        self.ledger.append("offset_syncs", [made])

    def _read(self) -> None:
        self.read_end = self.end
        ends = {"last_stable": self.end, "high_watermark": self.end, "read_at_ms": self.now_ms}
        made = self._row("high_watermarks", "recorder:E", cluster="E", topic="t", topic_id="T", **ends)
        self.ledger.append("high_watermarks", [made])
        self._answer()

    def _sign(self) -> None:
        made = self._row("writers", "recorder:E", event="alive", source_cluster="E")
        self.ledger.append("writers", [made])
        self._answer()

    def _answer(self) -> None:
        (then,) = answered("replication_lag", self.ledger.at(self.ledger.latest()), flow="f").values()
        self.then_by_look[self.now_ms] = then

    def _row(self, table: str, writer: str, **values: object) -> dict[str, object]:
        self.rounds[writer] += 1
        stamp = {
            "writer": writer,
            "writer_epoch": 1,
            "round": self.rounds[writer],
            "recorded_at_ms": self.now_ms,
        }
        return row(table, **{**stamp, **values})


def test_lives_that_go_both_ways_have_the_lag_of_replication_lag() -> None:
    """What other flows wrote is counted otherwise here: by sums, not row by row."""
    ledger = MemoryLedger()
    ledger.append("writers", [row("writers", event="claimed", flow=THERE, source_cluster="east")])
    for number in range(40):
        life = lived(number, is_two_way=True)
        ends = row(
            "high_watermarks",
            cluster="east",
            topic=topic_of(number),
            topic_id=f"east-id-{number}",
            last_stable=life.east.end,
            high_watermark=life.east.end,
            read_at_ms=10**12,
        )
        ledger.append("offset_syncs", life.rows(number)["offset_syncs"])
        ledger.append("high_watermarks", [ends])
    at = ledger.at(ledger.latest())
    lag, over_time = answered("replication_lag", at, flow=THERE), at_one_instant(at, THERE, AT_LAST_MS)
    columns = SAME + SINCE
    assert {key: {name: found[name] for name in columns} for key, found in over_time.items()} == {
        key: {name: found[name] for name in columns} for key, found in lag.items()
    }
