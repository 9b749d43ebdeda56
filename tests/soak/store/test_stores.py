"""A ledger in an object store: mirrored, failed over and answered as in a folder, over a line that is bad."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from ledger.answers.maintenance import init_ledger
from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.errors import MirrorLedgerError
from ledger.sandbox.reading import read_topics
from ledger.sandbox.workload import create_topics
from ledger.store import answers, catalog, fetched, projections
from ledger.store.delta_tables import create_tables, opened_at
from ledger.store.log import DeltaFactLog
from ledger.store.maintenance import TableUpkeep
from ledger.store.merging import TableFolder
from ledger.store.projections import FANOUT, Projection
from ledger.store.relations import file_sizes
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.drivers import Driver
from tests.support.following import name_of
from tests.support.ledger_rows import TABLE, WRITER, claim, watermark
from tests.support.recorded import broken_invariants, query, rows
from tests.support.runs import FLOW
from tests.support.shops import Desk, Shop, beside
from tests.support.site import RealSite
from tests.support.stores import Store
from tests.support.waiting import eventually

_CLAIMANTS, _CLAIMS = 4, 5


def in_store(site: RealSite, s3: Store, topic: str) -> MirrorConfig:
    lines = f'topics = ["{topic}"]\nround_seconds = 1\nsync_groups = true\nsync_groups_seconds = 2'
    config = write_config(site.folder, servers_of(site.pair), {FLOW: lines}, store=s3)
    init_ledger(config)
    return config


def over_line(config: MirrorConfig, s3: Store) -> MirrorConfig:
    """The same for another process, which reaches the store by the line."""
    file = Path(config.file).with_name("over-line.toml")
    text = Path(config.file).read_text(encoding="utf-8")
    file.write_text(text.replace(s3.address, s3.line.address), encoding="utf-8")
    return config.model_copy(update={"file": str(file)})


def test_an_epoch_is_claimed_by_one(s3: Store, tmp_path: Path) -> None:
    write_config(tmp_path, {"east": "a:1", "west": "a:2"}, {FLOW: 'topics = ["a"]'}, store=s3)
    create_tables(s3.path, now_ms=SystemClock().now_ms())

    def claim_often(number: int) -> list[int]:
        log, epochs = DeltaFactLog(s3.path, SystemClock()), []
        for attempt in range(_CLAIMS):
            try:
                claimed = claim(log, f"host:{number}:{attempt}")
                log.append(claimed, TABLE, 1, [watermark(claimed.epoch)])
            except MirrorLedgerError:
                continue
            epochs.append(claimed.epoch)
        return epochs

    with ThreadPoolExecutor(_CLAIMANTS) as several:
        found = [epoch for epochs in several.map(claim_often, range(_CLAIMANTS)) for epoch in epochs]
    assert found, "somebody got through"
    assert len(found) == len(set(found)), "an epoch has one owner"
    recorded = sorted(row["high_watermark"] for row in _table(s3, TABLE))
    assert sorted(found) == [epoch for epoch in recorded if epoch in set(found)]
    assert len(recorded) == len(set(recorded)), "nothing is there twice"
    assert {row["writer"] for row in _table(s3, TABLE)} == {WRITER}


def test_nobody_stands_still_for_long_when_a_store_falls_silent(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a read: the table was opened before. The library holds the interpreter while it waits."""
    write_config(tmp_path, {"east": "a:1", "west": "a:2"}, {FLOW: 'topics = ["a"]'}, store=s3)
    create_tables(s3.path, now_ms=SystemClock().now_ms())
    log = DeltaFactLog(s3.path, SystemClock())
    claimed = claim(log)
    for number in range(1, 4):
        log.append(claimed, TABLE, number, [watermark(number)])
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{s3.line.address}")
    opened = opened_at(f"{s3.path}/{TABLE}")
    files = file_sizes(opened)
    assert len(files) == 3
    s3.line.freeze()
    with longest_stand_still() as stood_still, pytest.raises(OSError, match="S3"):
        fetched.places(opened, files)
    folder = TableFolder(f"{s3.path}/{TABLE}")
    with longest_stand_still() as of_merging, pytest.raises(OSError, match="S3"), folder.readable([*files]):
        pass
    with (
        longest_stand_still() as of_writing,
        pytest.raises(OSError, match="S3"),
        folder.writable("merged") as place,
    ):
        place.write_bytes(b"rows")
    print(f"{stood_still[0]:.1f} s, {of_merging[0]:.1f} s, {of_writing[0]:.1f} s")
    assert stood_still[0] < 8
    assert of_merging[0] < 8
    assert of_writing[0] < 13
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{s3.address}")
    assert len(fetched.places(opened, files)) == 3, "past the line it is answered"


@contextmanager
def longest_stand_still() -> Iterator[list[float]]:
    """For how many seconds at once no other thread of this process came to anything while the body ran, at most."""
    longest = [0.0]

    def work(ended: threading.Event) -> None:
        last_s = time.monotonic()
        while not ended.wait(0.02):
            longest[0] = max(longest[0], time.monotonic() - last_s)
            last_s = time.monotonic()
        longest[0] = max(longest[0], time.monotonic() - last_s)

    with beside(work):
        yield longest


def test_projections_lie_in_the_store_and_files_are_merged_there(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projections, "LEAST_ROWS", 1)
    write_config(tmp_path, {"east": "a:1", "west": "a:2"}, {FLOW: 'topics = ["a"]'}, store=s3)
    create_tables(s3.path, now_ms=SystemClock().now_ms())
    log = DeltaFactLog(s3.path, SystemClock())
    claimed = claim(log)
    upkeep = TableUpkeep(s3.path, TABLE, SystemClock(), keep_hours=1)
    for number in range(1, 2 * FANOUT + 1):
        log.append(claimed, TABLE, number, [watermark(number)])
        assert upkeep.project_when_due()
    blocks = DeltaTable(f"{s3.path}/projections/{TABLE}")
    assert 1 <= len(blocks.file_uris()) < FANOUT, "many became one"
    opened = DeltaTable(f"{s3.path}/{TABLE}")
    found = Projection(s3.path, TABLE).read(opened, lambda _: True, is_now=True)
    assert found is not None
    assert found.noted.rows == 2 * FANOUT
    assert [row.high_watermark for row in _state(s3).last_high_watermarks("east")] == [2 * FANOUT]
    merged = upkeep.merge()
    assert (merged.merged, merged.written) == (2 * FANOUT, 1), "many files became one"
    assert upkeep.rebuild()
    assert len(DeltaTable(f"{s3.path}/projections/{TABLE}").file_uris()) == 1
    assert [row.high_watermark for row in _state(s3).last_high_watermarks("east")] == [2 * FANOUT]


def _state(s3: Store) -> DeltaLedgerState:
    return DeltaLedgerState(open_ledger(s3.path))


def test_a_mirror_outlives_a_store_that_is_slow_refuses_and_forgets(site: RealSite, s3: Store) -> None:
    east, west = site.servers
    topic = name_of("orders")
    config = in_store(site, s3, topic)
    create_topics(east, [topic], partitions=3)
    shop, desk = Shop(topic, 3), Desk(name_of("billing"))
    with ExitStack() as stack:
        stack.callback(lambda: print((site.folder / "driver.log").read_text(encoding="utf-8")[-6000:]))

        def started() -> Driver:
            made = Driver(over_line(config, s3), site.folder / "driver.log")
            stack.callback(made.kill_with_workers)
            return made

        driver = started()
        with shop.selling(east), desk.open(east, [topic]):
            eventually(
                lambda: query(config, "flow_positions", flow=FLOW) != [], "it is at work", within_s=120
            )
            s3.line.slow(round_trip_s=0.1)
            appended = len(rows(config, "offset_syncs"))
            eventually(
                lambda: len(rows(config, "offset_syncs")) > appended, "slow, and at work", within_s=120
            )
            s3.line.refuse()
            time.sleep(90)
            s3.line.accept()
            known = len(rows(config, "offset_syncs"))
            eventually(
                lambda: len(rows(config, "offset_syncs")) > known, "it waited, and is at work", within_s=120
            )
            assert driver.process.poll() is None
            for after_bytes in (200, 2_000, 5_000, 10_000):
                s3.line.lose_answers(after_bytes=after_bytes, for_s=1.0)
                eventually(lambda: s3.line.has_lost_answers, "answers were lost", within_s=120)
                time.sleep(3)
            s3.line.slow()
            driver.kill_with_workers()
            driver = started()
            time.sleep(20)
        eventually(lambda: _is_copied(east, west, topic), "all is at the target, once", within_s=300)
        time.sleep(10)
        assert driver.process.poll() is None
    assert broken_invariants(config) == {}
    site.done(config, "maintain")
    assert_answers_as_a_folder(site, config, s3, desk.group)


def assert_answers_as_a_folder(site: RealSite, config: MirrorConfig, s3: Store, group: str) -> None:
    """The same files, read as a folder of this machine."""
    (site.folder / "beside").mkdir()
    beside = site.folder / "beside" / "mirror.toml"
    text = Path(config.file).read_text(encoding="utf-8")
    own, rest = text.split("[clusters", 1)
    assert s3.path in own
    beside.write_text(f'[ledger]\npath = "{s3.folder}"\n[clusters{rest}', encoding="utf-8")
    folder = config.model_copy(update={"file": str(beside)})
    token = answers.snapshot(config, None).cut.token
    asked = [
        ("offsets", "translate", "--flow", FLOW, "--group", group, "-o", "json"),
        ("offsets", "translate", "--from", "east", "--to", "west", "-o", "json"),
        ("audit",),
        *(("query", name, "-o", "json") for name in sorted(catalog.queries())[:3]),
    ]
    for words in asked:
        there, here = (site.command(one, *words, "--as-of", token) for one in (config, folder))
        assert (there.code, there.out) == (here.code, here.out), (words, there.err, here.err)
    assert json.loads(site.done(config, *asked[0]).out), "the group has a place"


def _is_copied(east: str, west: str, topic: str) -> bool:
    source, target = read_topics(east, [topic]), read_topics(west, [f"east.{topic}"])
    written = {partition: [one.record for one in found] for (_, partition), found in source.items()}
    return bool(written) and written == {
        partition: [one.record for one in found] for (_, partition), found in target.items()
    }


def _table(s3: Store, table: str) -> list[dict[str, Any]]:
    return list(DeltaTable(str(s3.folder / table)).to_pyarrow_table().to_pylist())
