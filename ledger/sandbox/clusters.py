"""The sandbox: clusters of real brokers under one folder, started, disturbed and removed.

Invariants
    S1  only processes that the sandbox started are signalled (see `processes`)
    S2  a broker keeps its ports, its data and its cluster id until `down`
    S3  whatever runs is in the state file; `down` leaves no process and no folder
    S4  one call at a time changes a sandbox, also across processes
"""

import base64
import fcntl
import os
import re
import shutil
import signal
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import MirrorLedgerError, PreconditionError, UsageError
from ledger.sandbox import ports, processes, state
from ledger.sandbox.brokers import BrokerFolder, kafka_jars, launch, wait_until_ready
from ledger.sandbox.configuration import CONFIGURATION_FILE, render_configuration
from ledger.sandbox.properties import PLAINTEXT, ListenerSecurity
from ledger.sandbox.state import NEWEST, ClusterRecord, NodeRecord, Records, SandboxCluster

ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
BROKER_COUNTS = (1, 3)
READY_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0
KILL_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Clusters under `root`. Holds no state of its own: any number of these may name the same folder."""

    root: Path

    @property
    def configuration(self) -> Path:
        """The configuration file for the clusters that `up` started."""
        return self.root.absolute() / CONFIGURATION_FILE

    def up(
        self,
        clusters: Sequence[str],
        brokers: int,
        *,
        overrides: Mapping[str, Mapping[str, str]] | None = None,
        security: Mapping[str, ListenerSecurity] | None = None,
        far: Collection[str] = (),
        releases: Mapping[str, str] | None = None,
    ) -> dict[str, SandboxCluster]:
        """Bring all clusters up and wait until they serve; what already runs is left alone.

        `overrides` (server properties), `security` and `releases` of Kafka (the newest unless given) are by alias;
        `far` are those whose brokers also listen for a forwarder (see `properties`).
        """
        asked = _new_records(clusters, brokers, overrides or {}, security or {}, far, releases or {})
        for release in {record.release for record in asked.values()}:
            kafka_jars(release)  # before anything is created
        with _exclusive(self.root):
            records = self._adopt(asked)
            records = self._start_dead(records, {alias: None for alias in records})
            self.configuration.write_text(render_configuration(self.root.absolute(), _views(records)))
            return _views(records)

    def status(self) -> dict[str, SandboxCluster]:
        """What is there now; empty when there is no sandbox."""
        return _views(state.load(self.root) or {})

    def down(self) -> bool:
        """Kill all brokers and remove the folder; False when there was nothing."""
        if state.load(self.root) is None:
            return False
        with _exclusive(self.root):
            nodes = [node for record in self._records().values() for node in record.nodes]
            _end(nodes, signal.SIGKILL, KILL_TIMEOUT_S)
            shutil.rmtree(self.root)
        return True

    def kill(self, alias: str, node_id: int | None = None) -> None:
        """SIGKILL one broker, or all of a cluster, and wait until they have ended."""
        self._end(alias, node_id, signal.SIGKILL, KILL_TIMEOUT_S)

    def stop(self, alias: str, node_id: int | None = None) -> None:
        """SIGTERM: a clean shutdown, waited for."""
        self._end(alias, node_id, signal.SIGTERM, STOP_TIMEOUT_S)

    def start(self, alias: str, node_id: int | None = None) -> SandboxCluster:
        """Start what is dead of a cluster, on the same ports and data, and wait until it serves."""
        with _exclusive(self.root):
            records = self._records()
            _nodes(records, alias, node_id)
            return _views(self._start_dead(records, {alias: node_id}))[alias]

    def pause(self, alias: str, node_id: int | None = None) -> None:
        """SIGSTOP: connections stay open and nothing is answered."""
        for process in self._running(alias, node_id):
            processes.pause(process, KILL_TIMEOUT_S)

    def resume(self, alias: str, node_id: int | None = None) -> None:
        """SIGCONT after `pause`."""
        for process in self._running(alias, node_id):
            processes.send(process, signal.SIGCONT)

    def log(self, alias: str, node_id: int = 1) -> Path:
        """Where a broker writes its log."""
        return self._folder(alias, node_id).log

    def data(self, alias: str, node_id: int = 1) -> Path:
        """Where a broker keeps its partitions."""
        return self._folder(alias, node_id).data

    def _records(self) -> Records:
        records = state.load(self.root)
        if records is None:
            raise PreconditionError(f"there is no sandbox under {self.root}; start one with `up` first")
        return records

    def _adopt(self, asked: Records) -> Records:
        """What is remembered, if it has the shape that is asked for; else what is asked for, remembered."""
        found = state.load(self.root)
        if found is None:
            _refuse_foreign_folder(self.root)
            state.save(self.root, asked)
            return asked
        if _shape(found) != _shape(asked):
            raise PreconditionError(
                f"the sandbox under {self.root} has another shape ({_described(found)}) than asked for"
                f" ({_described(asked)}); nothing was changed: take it down first, or use another root"
            )
        return found

    def _start_dead(self, records: Records, wanted: Mapping[str, int | None]) -> Records:
        """Start what is dead among `wanted` (all nodes of an alias, or one), and wait for it."""
        chosen = [
            (alias, node) for alias, node_id in wanted.items() for node in _nodes(records, alias, node_id)
        ]
        for _, node in chosen:
            if node.live:
                processes.send(node.live, signal.SIGCONT)  # it may have been paused
        dead = [(alias, node) for alias, node in chosen if not node.live]
        records = self._launch_all(records, dead)
        self._wait_for_all(records, wanted)
        return records

    def _launch_all(self, records: Records, dead: Sequence[tuple[str, NodeRecord]]) -> Records:
        """Launch at once; each process is remembered as soon as it exists, also when another fails (S3)."""
        records = dict(records)
        failures: list[MirrorLedgerError] = []
        with ThreadPoolExecutor(max_workers=max(len(dead), 1)) as pool:
            pending = {
                pool.submit(launch, self._folder(alias, node.ports.node_id), node.ports, records[alias]): (
                    alias,
                    node.ports.node_id,
                )
                for alias, node in dead
            }
            for done in as_completed(pending):
                alias, node_id = pending[done]
                try:
                    records[alias] = records[alias].with_process(node_id, done.result())
                except MirrorLedgerError as error:
                    failures.append(error)
                else:
                    state.save(self.root, records)
        if failures:
            raise failures[0]
        return records

    def _wait_for_all(self, records: Records, wanted: Mapping[str, int | None]) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        for alias, node_id in wanted.items():
            expected = [node.ports.node_id for node in records[alias].nodes if node.live]
            for node in _nodes(records, alias, node_id):
                assert node.process is not None
                folder = self._folder(alias, node.ports.node_id)
                wait_until_ready(folder, node.ports, node.process, expected, deadline_s)

    def _end(self, alias: str, node_id: int | None, number: signal.Signals, timeout_s: float) -> None:
        with _exclusive(self.root):
            _end(_nodes(self._records(), alias, node_id), number, timeout_s)

    def _running(self, alias: str, node_id: int | None) -> list[processes.Process]:
        nodes = _nodes(self._records(), alias, node_id)
        if dead := [node.ports.node_id for node in nodes if not node.live]:
            raise PreconditionError(f"brokers {dead} of {alias!r} do not run; no signal was sent")
        return [node.live for node in nodes if node.live]

    def _folder(self, alias: str, node_id: int) -> BrokerFolder:
        return BrokerFolder(self.root.absolute() / "clusters" / alias / f"node-{node_id}")


def _new_records(
    clusters: Sequence[str],
    brokers: int,
    overrides: Mapping[str, Mapping[str, str]],
    security: Mapping[str, ListenerSecurity],
    far: Collection[str],
    releases: Mapping[str, str],
) -> Records:
    _check_request(clusters, brokers, {*overrides, *security, *far, *releases})
    chosen = ports.choose(clusters, brokers, with_far=far)
    return {
        alias: ClusterRecord(
            cluster_id=_new_cluster_id(),
            nodes=tuple(NodeRecord(node_ports) for node_ports in nodes),
            security=security.get(alias, PLAINTEXT),
            overrides=dict(overrides.get(alias, {})),
            release=releases.get(alias, NEWEST),
        )
        for alias, nodes in chosen.items()
    }


def _check_request(clusters: Sequence[str], brokers: int, configured: set[str]) -> None:
    if brokers not in BROKER_COUNTS:
        raise UsageError(f"a sandbox cluster has 1 or 3 brokers, not {brokers}; nothing was started")
    if not clusters or len(set(clusters)) != len(clusters):
        raise UsageError(f"needs different cluster aliases, got {list(clusters)}; nothing was started")
    for alias in clusters:
        if not ALIAS.fullmatch(alias):
            raise UsageError(
                f"a cluster alias is letters, digits, _ and -, not {alias!r}; nothing was started"
            )
    if unknown := configured - set(clusters):
        raise UsageError(f"settings for unknown clusters {sorted(unknown)}; nothing was started")


def _new_cluster_id() -> str:
    """A Kafka cluster id: 16 random bytes in base64; Kafka's tools refuse one that begins like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _nodes(records: Records, alias: str, node_id: int | None) -> list[NodeRecord]:
    if alias not in records:
        raise UsageError(f"no cluster {alias!r} in the sandbox, only {', '.join(records)}; nothing was done")
    nodes = [node for node in records[alias].nodes if node_id in (None, node.ports.node_id)]
    if not nodes:
        raise UsageError(f"no broker {node_id} in cluster {alias!r}; nothing was done")
    return nodes


def _end(nodes: Sequence[NodeRecord], number: signal.Signals, timeout_s: float) -> None:
    """All at once: brokers that leave one by one wait for each other."""
    running = [node.process for node in nodes if node.process]
    with ThreadPoolExecutor(max_workers=max(len(running), 1)) as pool:
        for ended in [pool.submit(processes.end, process, number, timeout_s) for process in running]:
            ended.result()


def _views(records: Records) -> dict[str, SandboxCluster]:
    return {alias: state.view(alias, record) for alias, record in records.items()}


def _shape(records: Records) -> dict[str, tuple[list[bool], ListenerSecurity, Mapping[str, str], str]]:
    """Of each broker whether it has a far listener; what its clients must present; its properties; its release."""
    return {
        alias: (
            [node.ports.far is not None for node in record.nodes],
            record.security,
            record.overrides,
            record.release,
        )
        for alias, record in records.items()
    }


def _described(records: Records) -> str:
    settings = {
        alias: sorted([*record.overrides, *record.security.properties]) for alias, record in records.items()
    }
    return ", ".join(
        f"{alias}: {len(record.nodes)} brokers" + (f" with {settings[alias]}" if settings[alias] else "")
        for alias, record in records.items()
    )


def _refuse_foreign_folder(root: Path) -> None:
    """`down` removes the folder, so the sandbox never moves into one that holds something else."""
    if any(root.iterdir()):
        raise PreconditionError(
            f"{root} holds files that are not a sandbox's; nothing was started: use an empty or new folder"
        )


@contextmanager
def _exclusive(root: Path) -> Iterator[None]:
    """Hold the folder itself as the lock (S4), so that `down` leaves no lock file behind."""
    while True:
        root.mkdir(parents=True, exist_ok=True)
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_still(root, handle):
                yield
                return
        finally:
            os.close(handle)


def _is_still(root: Path, handle: int) -> bool:
    """Whether the locked folder is the one at `root`, not one that `down` removed meanwhile."""
    try:
        return os.path.samestat(os.stat(root), os.fstat(handle))
    except FileNotFoundError:
        return False
