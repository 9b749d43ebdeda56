"""What flows cost that nobody writes to, in one process: memory and CPU beside as many flows of one MirrorMaker 2.

    python -m tests.benchmarks.idle_flows [--flows 10] [--seconds 60]

Each flow has a topic of one record, which is waited for. Its source is `east` by an alias of its own, for a MirrorMaker
has one flow for a pair of clusters. Memory is proportional (what processes share is counted once), of all processes of
a mirror; CPU is theirs over the seconds. MirrorMaker 2 has -Xmx1g; both write heartbeats and checkpoints of their own.
Where heartbeats are on for all, it starts a herder for each two of its clusters, 110 of them here, and does not get to
copying within minutes: they are on for its ten flows alone.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from ledger.answers.maintenance import init_ledger
from ledger.config.mirror import MirrorConfig
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import Sandbox, SandboxCluster
from ledger.sandbox.workload import create_topics
from tests.benchmarks.idle_topics import SESSION, TICKS_PER_S, after_name, kind_of
from tests.support.clusters import servers_of
from tests.support.config_files import write_config
from tests.support.drivers import command_of, ended_afterwards
from tests.support.following import admin_of, produce
from tests.support.mirror_maker import maker_of

CALM_S = 15.0
DEADLINE_S = 300.0
_EMITS = "emit_heartbeats = true\nemit_checkpoints = true"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--flows", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox(Path(folder) / "sandbox")
        try:
            measure(sandbox.up(["east", "west"], 1), Path(folder), options.flows, options.seconds)
        finally:
            sandbox.down()


def measure(pair: Mapping[str, SandboxCluster], folder: Path, flows: int, seconds: float) -> None:
    servers = servers_of(pair)
    topics = {f"east{number}": f"orders{number}" for number in range(flows)}
    create_topics(servers["east"], list(topics.values()), partitions=1)
    for topic in topics.values():
        produce(servers["east"], topic, "0")
    config = configured(folder, servers, topics)
    init_ledger(config)
    ours = [sys.executable, "-m", "ledger.cli.main", "--config", config.file, "run", "--all"]
    job = ended_afterwards(ours, folder / "ours.log")
    names = [f"{alias}.{topic}" for alias, topic in topics.items()]
    watch("mirror-ledger", job, config.file, config, [f"ours.{name}" for name in names], seconds)
    maker = maker_of(properties(servers, topics), folder, jvm=("-Xmx1g",))
    watch("MirrorMaker 2", maker, str(folder / "maker.properties"), config, names, seconds)


def configured(folder: Path, servers: Mapping[str, str], topics: Mapping[str, str]) -> MirrorConfig:
    clusters = {"west": servers["west"], **dict.fromkeys(topics, servers["east"])}
    flows = {
        f"{alias}-to-west": (
            f'source = "{alias}"\ntarget = "west"\ntopics = ["{topic}"]\nprefix = "ours.{alias}"\n{_EMITS}'
        )
        for alias, topic in topics.items()
    }
    return write_config(folder, clusters, flows)


def properties(servers: Mapping[str, str], topics: Mapping[str, str]) -> str:
    lines = [
        f"clusters = {', '.join([*topics, 'west'])}",
        f"west.bootstrap.servers = {servers['west']}",
        *("replication.factor = 1", "checkpoints.topic.replication.factor = 1", "tasks.max = 1"),
        *("heartbeats.topic.replication.factor = 1", "offset-syncs.topic.replication.factor = 1"),
        *(f"{name}.storage.replication.factor = 1" for name in ("offset", "status", "config")),
        "sync.topic.acls.enabled = false",
        "emit.heartbeats.enabled = false",
    ]
    for alias, topic in topics.items():
        lines += [
            f"{alias}.bootstrap.servers = {servers['east']}",
            f"{alias}->west.enabled = true",
            f"{alias}->west.emit.heartbeats.enabled = true",
            f"{alias}->west.topics = {topic}",
        ]
    return "\n".join(lines) + "\n"


def watch(
    name: str,
    mirror: AbstractContextManager[object],
    file: str,
    config: MirrorConfig,
    targets: Collection[str],
    seconds: float,
) -> None:
    """`file` is named by the command line of the mirror's first process."""
    with admin_of(config, "west") as admin, mirror:
        began = time.monotonic()
        wait_until_copied(admin, targets)
        copied_s = time.monotonic() - began
        time.sleep(CALM_S)
        before, at = cpu_s(file), time.monotonic()
        time.sleep(seconds)
        used = {kind: cpu - before.get(kind, 0.0) for kind, cpu in cpu_s(file).items()}
        took = time.monotonic() - at
        memory = summed(file, proportional_mb)
    kinds = ", ".join(f"{kind} {memory[kind]:.0f} MB {100 * used[kind] / took:.1f} %" for kind in used)
    print(
        f"{name:14} {len(targets)} flows, all copied after {copied_s:.0f} s; {sum(memory.values()):6.0f} MB, "
        f"{100 * sum(used.values()) / took:5.1f} % of a core ({kinds})",
        flush=True,
    )


def wait_until_copied(admin: KafkaAdmin, targets: Collection[str]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if not set(targets) - admin.topics().keys():
            ends = admin.ends([(topic, 0) for topic in targets])
            if all(end.high_watermark for end in ends.values()):
                return
        time.sleep(1.0)
    raise SystemExit(f"not all of {len(targets)} topics were copied within {DEADLINE_S:.0f} s")


def cpu_s(file: str) -> dict[str, float]:
    return summed(file, lambda process: sum(map(int, after_name(process, "stat")[11:13])) / TICKS_PER_S)


def proportional_mb(process: Path) -> float:
    lines = (process / "smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


def summed(file: str, figure: Callable[[Path], float]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for process, kind in processes(file):
        with suppress(FileNotFoundError, ProcessLookupError):
            sums[kind] = sums.get(kind, 0.0) + figure(process)
    return sums


def processes(file: str) -> Iterator[tuple[Path, str]]:
    """Of the mirror's session, by kind."""
    everyone = list(Path("/proc").glob("[0-9]*"))
    [first] = [int(one.name) for one in everyone if is_first(int(one.name), file)]
    for process in everyone:
        with suppress(FileNotFoundError, ProcessLookupError):
            if first in (int(process.name), int(after_name(process, "stat")[SESSION])):
                yield process, kind_of(process, first)


def is_first(pid: int, file: str) -> bool:
    """Whether it was started with the file, in a session of its own."""
    with suppress(FileNotFoundError, ProcessLookupError):
        is_leader = int(after_name(Path(f"/proc/{pid}"), "stat")[SESSION]) == pid
        return is_leader and file in command_of(pid)
    return False


if __name__ == "__main__":
    main()
