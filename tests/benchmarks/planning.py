"""What making a plan costs by its kind: whole processes, one kind after the other, on real brokers.

    python -m tests.benchmarks.planning [--topics 4] [--partitions 3] [--groups 6] [--runs 9]

Both clusters answer. A failover and a switchover are planned from a copy of the ledger as it was before applications
moved; a failback from the one where they have moved by a failover, the lost cluster is back with records of its own,
and the other one has records that are to return. Medians, of wall time and of CPU time (user and system) of the
process; `beside` is the median beside that of the failover.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from ledger.answers.maintenance import init_ledger
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.sandbox import Sandbox
from ledger.sandbox.workload import create_topics
from tests.benchmarks.downtime import mirror_ledger
from tests.support.clusters import servers_of
from tests.support.config_files import write_config

_FLOW, _BACK = "east-to-west", "west-to-east"
_LINES = "topics = ['shop-.*']\ntopic_naming = 'identity'\nstart = 'earliest'\n"
_RECORDS = 500
_HAS_BLOCKERS = 4
_AWAY = ("--accept", "no_commit", "--fence", "none", "--accept", "unproven=nobody writes")


@dataclass
class Kind:
    """A plan as people type it, and what each of its processes has taken."""

    words: Sequence[str]
    config: MirrorConfig
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def measure(self) -> None:
        command = [sys.executable, "-m", "ledger.cli.main", "--config", self.config.file, "plan", *self.words]
        began_s = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.wall_s.append(time.monotonic() - began_s)
        self.cpu_s.append(used.ru_utime + used.ru_stime)
        if process.returncode not in (0, _HAS_BLOCKERS):
            raise SystemExit(f"plan {' '.join(self.words)}: exit {process.returncode}\n{said}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=4)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(Path(folder) / "sandbox")
        try:
            kinds = prepared(Path(folder), sandbox, options.topics, options.partitions, options.groups)
            for one in [*kinds.values(), *(one for _ in range(options.runs) for one in kinds.values())]:
                one.measure()
        finally:
            sandbox.down()
    report(kinds)


def report(kinds: dict[str, Kind]) -> None:
    first = next(iter(kinds.values()))
    print(f"{'plan':12} {'wall s':>8} {'beside':>7} {'CPU s':>8} {'beside':>7}")
    for name, one in kinds.items():
        columns = []
        for figures, others in ((one.wall_s, first.wall_s), (one.cpu_s, first.cpu_s)):
            mine = statistics.median(figures[1:])  # the first of each finds nothing cached
            columns += [f"{mine:8.2f}", f"{mine / statistics.median(others[1:]):7.2f}"]
        print(f"{name:12}", *columns)


def prepared(folder: Path, sandbox: Sandbox, topics: int, partitions: int, groups: int) -> dict[str, Kind]:
    """Clusters and ledgers that the plans are made from."""
    pair = sandbox.up(["east", "west"], brokers=1)
    east, west = (pair[alias].bootstrap_servers for alias in ("east", "west"))
    names = [f"shop-{number:02}" for number in range(topics)]
    config = configured(folder / "moved", servers_of(pair))
    create_topics(east, names, partitions=partitions)
    fill(east, names, partitions)
    commit(east, names, partitions, groups)
    mirror_ledger(config, "run", _FLOW, "--until-caught-up")
    recorded(config)
    before = configured(folder / "before", servers_of(pair))
    shutil.rmtree(before.ledger.path)
    shutil.copytree(config.ledger.path, before.ledger.path)
    sandbox.kill("east")
    options = ("--accept", "mirror_not_shut_out", "-o", "json")
    failover = ("failover", "--from", "east", "--to", "west", *_AWAY)
    plan_id = mirror_ledger(config, "plan", *failover, *options).partition('"plan_id":')[2].split('"')[1]
    mirror_ledger(config, "apply", plan_id, "--reason", "a bench", "--yes")
    fill(west, names, partitions)
    sandbox.start("east")
    fill(east, names, partitions)
    recorded(config)
    return {
        "failover": Kind(failover, before),
        "switchover": Kind(("switchover", "--from", "east", "--to", "west", *_AWAY), before),
        "failback": Kind(("failback", "--from", "west", "--to", "east", *_AWAY, "--extras", "keep"), config),
    }


def configured(folder: Path, servers: dict[str, str]) -> MirrorConfig:
    folder.mkdir()
    config = write_config(
        folder,
        servers,
        {
            _FLOW: f"{_LINES}opposite = '{_BACK}'",
            _BACK: f"source = 'west'\ntarget = 'east'\n{_LINES}opposite = '{_FLOW}'",
        },
    )
    init_ledger(config)
    return load_config(Path(config.file))


def recorded(config: MirrorConfig) -> None:
    for alias in ("east", "west"):
        mirror_ledger(config, "record", alias, "--once")


def fill(servers: str, names: Sequence[str], partitions: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(_RECORDS):
        for name in names:
            producer.produce(name, f"{number}".encode(), partition=number % partitions)
    assert producer.flush(60) == 0


def commit(servers: str, names: Sequence[str], partitions: int, groups: int) -> None:
    for number in range(groups):
        consumer = Consumer({"bootstrap.servers": servers, "group.id": f"group-{number}"})
        places = [TopicPartition(name, at, 50) for name in names for at in range(partitions)]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()


if __name__ == "__main__":
    main()
