"""What links cost: an append with one takes at most a tenth more of a processor than the same append without."""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pyarrow as pa
import pytest

from ledger.clock import SystemClock
from ledger.facts.links import LINK
from ledger.facts.tables import Row
from ledger.store.delta_tables import create_tables
from ledger.store.links import Links
from ledger.store.log import DeltaFactLog
from tests.support.config_files import write_config
from tests.support.ledger_rows import claim, row
from tests.support.runs import FLOW
from tests.support.stores import store

APPENDS = 60
AT_MOST = 1.10


class Unlinked(Links):
    """Rows as they are, below the same column."""

    def linked(self, *of_append: object) -> tuple[pa.Table, str | None]:
        rows = of_append[-1]
        assert isinstance(rows, pa.Table)
        return rows.append_column(LINK, pa.nulls(len(rows), pa.string())), None


@pytest.fixture(params=["folder", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where ledgers may lie, each below a name of its own."""
    if request.param == "folder":
        yield str(tmp_path)
        return
    monkeypatch.setenv("MIRROR_LEDGER_CACHE", str(tmp_path / "cache"))
    with store(tmp_path / "store") as found:
        write_config(tmp_path, {"east": "a:1", "west": "a:2"}, {FLOW: 'topics = ["a"]'}, store=found)
        yield found.path


def copied(round_number: int, rows: int) -> list[Row]:
    """What a driver appends of a round in which as many partitions had progress."""
    return [
        {
            **row("offset_syncs"),
            "source_topic": f"orders-{number // 16}",
            "source_topic_id": f"SOURCE-{number // 16:020}",
            "source_partition": number % 16,
            "source_leader_epoch": 4,
            "target_topic": f"east.orders-{number // 16}",
            "target_topic_id": f"TARGET-{number // 16:020}",
            "target_partition": number % 16,
            "source_start": 500_000 + 1_000 * round_number,
            "source_end": 501_000 + 1_000 * round_number,
            "target_start": 480_000 + 1_000 * round_number,
            "target_end": 481_000 + 1_000 * round_number,
            "records": 1_000,
            "bytes": 1_000_000 + number,
            "checksum": (number * 2_654_435_761 + round_number) % 2**32,
            "raw_batches": 12,
        }
        for number in range(rows)
    ]


@pytest.mark.parametrize("rows", [19, 1_000])
def test_an_append_with_a_link_costs_a_tenth_more_at_most(place: str, rows: int) -> None:
    """Both are made in turn, so that what else the machine does falls on both."""
    logs, claims = {}, {}
    for name, links in (("with", Links), ("without", Unlinked)):
        path = f"{place}/{name}-{rows}"
        create_tables(path, now_ms=1)
        logs[name] = DeltaFactLog(path, SystemClock())
        logs[name]._links = links(path)
        claims[name] = claim(logs[name])
    taken: dict[str, list[float]] = {name: [] for name in logs}
    for number in range(1, APPENDS + 1):
        appended = copied(number, rows)
        for name in sorted(logs, reverse=bool(number % 2)):
            begun = time.process_time()
            logs[name].append(claims[name], "offset_syncs", number, appended)
            taken[name].append(time.process_time() - begun)
    costs = {name: median(of[5:]) for name, of in taken.items()}
    print({name: f"{1_000 * cost:.1f} ms" for name, cost in costs.items()})
    assert costs["with"] <= AT_MOST * costs["without"]
