"""How long applications have no cluster to write to while a switchover is carried out, step by step, on real brokers.

    python -m tests.benchmarks.downtime [--topics 20] [--partitions 50] [--groups 100] [--rounds 720]

Both clusters know who their clients are, and the source is fenced `closed`. The ledger is that of an hour: so many
rounds of five seconds, in each of which every partition had progress. A tenth of the groups assign partitions to
themselves (`assign()`), so that their commits are all that tells of them. A shop writes until the plan stops it; these
read all that it has written, the others left before.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from deltalake import DeltaTable
from kafka.admin import ACLOperation, ResourceType

from ledger.answers.maintenance import init_ledger
from ledger.changeover.plans import StepName
from ledger.changeover.seeing import read_applies
from ledger.config.mirror import MirrorConfig
from ledger.facts.roles import writer_of
from ledger.facts.state import WriterClaim
from ledger.facts.syncs import FlowPosition
from ledger.facts.tables import HIGH_WATERMARKS, OFFSET_SYNCS, WRITERS, Row, place_of
from ledger.sandbox import Sandbox
from ledger.sandbox.workload import create_topics
from ledger.store import answers
from ledger.store.delta_tables import arrow_schema, table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.snapshots import open_ledger
from ledger.store.state import DeltaLedgerState
from tests.benchmarks.long_ledgers import CommitLog
from tests.support.guarded import (
    ADMINISTRATOR,
    BILLING,
    MIRROR,
    PAIR_SECRET,
    SHOP,
    GuardedCluster,
    GuardedPair,
    Rule,
    guarded_clusters,
    write_guarded_config,
)
from tests.support.ledger_rows import row
from tests.support.plans import HookedStep
from tests.support.runs import FLOW
from tests.support.waiting import eventually

_BACK = "west-to-east"
_BEHIND_OTHERS = 1_000
"""Recorders of the first driver have made fewer rounds."""
_FLOW = "topics = ['shop-.*']\ntopic_naming = 'identity'\n"
_ROUND_MS = 5_000
_READ_BY_A_GROUP = 2
_ALONE = 10
"""Of so many groups one assigns partitions to itself."""
_OF_APPLICATIONS = ("stop_producers", "start_applications")
_LIMIT_S = 300.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=720)
    options = parser.parse_args()
    os.environ[PAIR_SECRET] = password = uuid.uuid4().hex
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(Path(folder) / "sandbox")
        try:
            pair = guarded_clusters(sandbox, password)
            bench = Bench(Path(folder), pair, options.topics, options.partitions, options.rounds)
            bench.measure(options.groups)
        finally:
            sandbox.down()


@dataclass(frozen=True)
class Bench:
    """What is measured, in a folder of its own."""

    folder: Path
    pair: GuardedPair
    topics: int
    partitions: int
    rounds: int

    @property
    def names(self) -> list[str]:
        return [f"shop-{number:02}" for number in range(self.topics)]

    def measure(self, groups: int) -> None:
        for cluster in self.pair.values():
            let_in(cluster)
        config = self.configured()
        init_ledger(config)
        create_topics(self.pair["east"].open, self.names, partitions=self.partitions)
        self.driver_once(config)
        self.write_history(config)
        self.commit(groups)
        with self.driver(config):
            self.wait_until_recorded(config, groups)
            operation_id = self.switched_over(config, groups)
        report(config, operation_id)

    def configured(self) -> MirrorConfig:
        flows = {
            FLOW: f"{_FLOW}source = 'east'\ntarget = 'west'\nopposite = '{_BACK}'",
            _BACK: f"{_FLOW}source = 'west'\ntarget = 'east'\nopposite = '{FLOW}'",
        }
        return write_guarded_config(self.folder, self.pair, flows)

    # -- an hour that went by ----------------------------------------------------------------------

    def driver_once(self, config: MirrorConfig) -> None:
        """It creates the topics at west, and copies what the shop wrote in the hour: a record of each round."""
        self.fill()
        mirror_ledger(config, "run", FLOW, "--until-caught-up")

    def write_history(self, config: MirrorConfig) -> None:
        """What a driver and recorders would have recorded of it, had they been at work all that time."""
        clock = EarlierClock(self.rounds)
        split_by_rounds(config, clock)
        without_rows(config, HIGH_WATERMARKS.name, clock)
        log, state = (
            DeltaFactLog(config.ledger.path, clock),
            DeltaLedgerState(open_ledger(config.ledger.path)),
        )
        positions = state.positions(FLOW)
        for number in range(1, self.rounds + 1):
            clock.passed = number
            for alias in self.pair:
                rows = [read(alias, at, number, clock.now_ms()) for at in positions]
                claim = WriterClaim(f"recorder:{alias}", 1)
                log.append(claim, HIGH_WATERMARKS.name, _BEHIND_OTHERS + number, rows)

    def fill(self) -> None:
        producer = Producer({"bootstrap.servers": self.pair["east"].open, "linger.ms": 20})
        for number in range(self.rounds):
            for name in self.names:
                for partition in range(self.partitions):
                    producer.produce(name, f"{number}".encode(), partition=partition)
            producer.flush(60)
        assert producer.flush(60) == 0

    def commit(self, groups: int) -> None:
        with ThreadPoolExecutor(max_workers=8) as many:
            list(many.map(self._commit, range(groups)))

    def _commit(self, number: int, sold: Mapping[tuple[str, int], int] | None = None) -> None:
        """Members come and go with their commits; others commit without ever being members."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.pair["east"].open,
                "group.id": f"group-{number:03}",
                "enable.auto.commit": False,
            }
        )
        read = [self.names[(number + more) % self.topics] for more in range(_READ_BY_A_GROUP)]
        places = [
            TopicPartition(name, at, self.rounds + (sold or {}).get((name, at), 0))
            for name in read
            for at in range(self.partitions)
        ]
        if number % _ALONE:
            consumer.subscribe(read)
            eventually(
                lambda: consumer.poll(0.1) is not None or bool(consumer.assignment()), "it is a member"
            )
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()

    # -- the switchover ----------------------------------------------------------------------------

    @contextmanager
    def driver(self, config: MirrorConfig) -> Iterator[None]:
        with (self.folder / "driver.log").open("w") as words:
            process = subprocess.Popen(
                [sys.executable, "-m", "ledger.cli.main", "--config", config.file, "run", FLOW],
                stdout=words,
                stderr=words,
                start_new_session=True,
            )
            try:
                yield
            finally:
                process.terminate()
                process.wait(60)

    def wait_until_recorded(self, config: MirrorConfig, groups: int) -> None:
        state = DeltaLedgerState(open_ledger(config.ledger.path))
        wanted = groups * _READ_BY_A_GROUP * self.partitions
        eventually(
            lambda: len(list(state.last_checkpoints("east"))) >= wanted, "groups are recorded", within_s=120
        )

    def switched_over(self, config: MirrorConfig, groups: int) -> str:
        stop, start = (HookedStep(self.folder, step) for step in _OF_APPLICATIONS)
        plan = mirror_ledger(
            config,
            *("plan", "switchover", "--from", "east", "--to", "west", "--accept", "no_commit"),
            *(*stop.option, *start.option, "-o", "json"),
        )
        plan_id = str(json.loads(plan)[0]["plan_id"])
        with ThreadPoolExecutor(max_workers=1) as beside:
            applied = beside.submit(mirror_ledger, config, "apply", plan_id, "--reason", "a bench", "--yes")
            sold = self.sell_until(lambda: stop.is_asked() or applied.done())
            for number in range(0, groups, _ALONE):
                self._commit(number, sold)
            stop.done()
            eventually(lambda: start.is_asked() or applied.done(), "all is done", within_s=_LIMIT_S)
            start.done()
            return applied.result().split()[-1]

    def sell_until(self, is_ended: Callable[[], bool]) -> Mapping[tuple[str, int], int]:
        """Returns how many records each partition got."""
        cluster = self.pair["east"]
        producer = Producer({"bootstrap.servers": cluster.servers, **cluster.login(SHOP)})
        sold: Counter[tuple[str, int]] = Counter()
        while not is_ended():
            number = sold.total()
            at = self.names[number % self.topics], number % self.partitions
            producer.produce(at[0], b"sold", partition=at[1])
            producer.poll(0.01)
            sold[at] += 1
        assert producer.flush(30) == 0
        return sold


class EarlierClock:
    """The time at the end of a round of the hour before now."""

    def __init__(self, rounds: int) -> None:
        self._began_ms = int(time.time() * 1000) - rounds * _ROUND_MS
        self.passed = 0

    def now_ms(self) -> int:
        return self._began_ms + self.passed * _ROUND_MS

    def monotonic(self) -> float:
        return self.now_ms() / 1000


def split_by_rounds(config: MirrorConfig, clock: EarlierClock) -> None:
    """A row for each record, each of a round of its own, instead of the few rows of a copy in one go.

    The rounds of the copy come first, the others behind all that the driver has appended: none is missing.
    """
    found = rows_of(config, OFFSET_SYNCS.name)
    copied = [one for one in found if one["kind"] == "copied"]
    taken = sorted({one["round"] for one in copied})
    last = max(one["round"] for one in rows_of(config, WRITERS.name) if one["flow"] == FLOW)
    offsets = max(one["source_end"] for one in copied)
    rounds = [*taken, *range(last + 1, last + 1 + offsets - len(taken))]
    split = []
    for one in copied:
        for offset in range(one["source_start"], one["source_end"]):
            clock.passed = offset + 1
            split.append(
                {
                    **one,
                    "round": rounds[offset],
                    "recorded_at_ms": clock.now_ms(),
                    **dict.fromkeys(("source_start", "target_start", "first_sequence"), offset),
                    **dict.fromkeys(("source_end", "target_end"), offset + 1),
                    **dict.fromkeys(("records", "raw_batches"), 1),
                }
            )
    log, removed = without_files(config, OFFSET_SYNCS.name, clock)
    rows = pa.Table.from_pylist(
        [*(one for one in found if one["kind"] != "copied"), *split], schema=arrow_schema(OFFSET_SYNCS)
    )
    log.commit(
        *removed,
        {"txn": {"appId": writer_of(FLOW), "version": place_of(1, rounds[-1])}},
        log.write_sorted(rows),
    )


def without_rows(config: MirrorConfig, table: str, clock: EarlierClock) -> None:
    """Of a copy in one go, ends were read in the middle of the hour that is made of it."""
    log, removed = without_files(config, table, clock)
    log.commit(*removed)


def without_files(config: MirrorConfig, table: str, clock: EarlierClock) -> tuple[CommitLog, list[Any]]:
    """The log of a table, and the entries that remove all that is in it."""
    files = DeltaTable(table_uri(config.ledger.path, table)).get_add_actions(flatten=True)["path"].to_pylist()
    info = {"timestamp": clock.now_ms(), "operation": "OPTIMIZE", "operationParameters": {}}
    removed = {"dataChange": False, "deletionTimestamp": clock.now_ms()}
    return CommitLog(config.ledger.path, table), [
        {"commitInfo": info},
        *({"remove": {"path": name, **removed}} for name in files),
    ]


def rows_of(config: MirrorConfig, table: str) -> list[dict[str, Any]]:
    return list(DeltaTable(table_uri(config.ledger.path, table)).to_pyarrow_table().to_pylist())


def read(alias: str, at: FlowPosition, end: int, now_ms: int) -> Row:
    """The row of an end that was read."""
    topic, topic_id = (
        (at.source_topic, at.source_topic_id) if alias == "east" else (at.target_topic, at.target_topic_id)
    )
    return unstamped(
        HIGH_WATERMARKS.name,
        cluster=alias,
        topic=topic,
        topic_id=topic_id,
        partition=at.partition,
        leader_epoch=0,
        log_start=0,
        last_stable=end,
        high_watermark=end,
        read_at_ms=now_ms,
    )


def unstamped(table: str, **values: object) -> Row:
    stamp = ("writer", "writer_epoch", "round", "recorded_at_ms")
    return {name: value for name, value in row(table, **values).items() if name not in stamp}


def let_in(cluster: GuardedCluster) -> None:
    do, every = ACLOperation, "*"
    groups: list[Rule] = [(ResourceType.GROUP, every, one) for one in (do.READ, do.DELETE)]
    of_cluster: list[Rule] = [
        (ResourceType.CLUSTER, "kafka-cluster", one)
        for one in (do.ALTER, do.DESCRIBE, do.DESCRIBE_CONFIGS, do.ALTER_CONFIGS)
    ]
    topics = (do.READ, do.DESCRIBE_CONFIGS, do.ALTER_CONFIGS)
    written = (do.WRITE, do.CREATE, do.ALTER) if cluster.alias == "west" else ()
    cluster.allow(
        MIRROR,
        *((ResourceType.TOPIC, "shop-*", one) for one in (*topics, *written)),
        *groups,
        *(one for one in of_cluster if one[2] in (do.DESCRIBE, do.DESCRIBE_CONFIGS)),
    )
    cluster.allow(
        ADMINISTRATOR, *((ResourceType.TOPIC, "shop-*", one) for one in topics), *groups, *of_cluster
    )
    if cluster.alias == "east":
        cluster.allow(SHOP, (ResourceType.TOPIC, "shop-*", do.WRITE))
        cluster.allow(BILLING, (ResourceType.TOPIC, "shop-*", do.READ), *groups)


def mirror_ledger(config: MirrorConfig, *words: str) -> str:
    """A command as people type it, to its end; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "ledger.cli.main", "--config", config.file, *words],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def report(config: MirrorConfig, operation_id: str) -> None:
    """Seconds of each step, and of all between the stop of producers and the start of applications."""
    done = read_applies(answers.snapshot(config, None)).the(operation_id)
    order = list(StepName)
    first, last = order.index(StepName.STOP_PRODUCERS), order.index(StepName.START_APPLICATIONS)
    for step in order[first + 1 : last]:
        if step in done.done:
            print(f"{step:20} {done.took_ms[step] / 1000:6.2f} s  {done.done[step].words[:110]}")
    between = done.begun[StepName.START_APPLICATIONS] - done.done_at_ms[StepName.STOP_PRODUCERS]
    print(f"{'without a cluster':20} {between / 1000:6.2f} s")


if __name__ == "__main__":
    main()
