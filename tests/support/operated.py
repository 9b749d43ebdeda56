"""A flow's ledger as drivers and operators leave it, written without a broker or a JVM, and commands on it."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from ledger.clock import SystemClock
from ledger.config.mirror import MirrorConfig
from ledger.facts.roles import OPERATOR_WRITER
from ledger.facts.tables import Row
from ledger.machine import LocalProcesses
from ledger.store.delta_tables import table_uri
from ledger.store.log import DeltaFactLog
from ledger.store.session import random_id
from tests.support.commands import Done, command
from tests.support.config_files import write_config
from tests.support.ledger_rows import append, copied_to, row

FLOW = "east-to-west"
NOBODY = "127.0.0.1:9"
"""An address at which no broker listens."""
GONE = "{host}:{pid}:1:{place}"
"""The mark of an earlier process that had this one's id."""
_FLOW = {"flow": FLOW, "source_cluster": "east", "target_cluster": "west"}


class LaterClock(SystemClock):
    """Never tells the same time twice, so that it is known of two operations which came first."""

    def __init__(self) -> None:
        self._last_ms = 0

    def now_ms(self) -> int:
        self._last_ms = max(super().now_ms(), self._last_ms + 1)
        return self._last_ms


@dataclass(frozen=True)
class WrittenLedger:
    """A ledger to which a test appends what a flow from east to west, its recorders and its operators do."""

    path: str
    clock: LaterClock
    _appended: dict[tuple[str, object, object], set[int]] = field(
        default_factory=lambda: defaultdict(set), init=False, repr=False
    )
    """The rounds of each table, writer and epoch."""

    def append(self, table: str, *rows: Row, at_ms: int | None = None) -> None:
        """One commit; all rows say the same time, which is now unless it is given.

        Where a row names no round it is the next one of its writer. Raises when a round was appended before: of two
        appends with one stamp nobody can tell which a cut counts (L4).
        """
        at_ms = self.clock.now_ms() if at_ms is None else at_ms
        made = [{**row(table), **given, "recorded_at_ms": at_ms} for given in rows]
        stamped = [self._stamped(table, one, given) for one, given in zip(made, rows, strict=True)]
        for one in stamped:
            self._appended[_of_writer(table, one)].add(one["round"])
        append(self.path, table, stamped)

    def _stamped(self, table: str, made: dict[str, Any], given: Row) -> dict[str, Any]:
        before = self._appended[_of_writer(table, made)]
        assert given.get("round") not in before, f"{_of_writer(table, made)} has appended that round: {given}"
        return made if "round" in given else {**made, "round": max(before, default=0) + 1}

    def writer(
        self, event: str, host: str, *, epoch: int = 1, round_number: int = 0, at_ms: int | None = None
    ) -> None:
        event_row = {"writer_epoch": epoch, "round": round_number, "event": event, "host": host}
        self.append("writers", {**_FLOW, **event_row, "writer": f"flow:{FLOW}"}, at_ms=at_ms)

    def copied(
        self, ends: Mapping[tuple[str, int], int], *, at_ms: int | None = None, **values: object
    ) -> None:
        """All source offsets of some partitions up to their ends, of a flow that has started there."""
        rows = [{**self._copied(topic, partition, end), **values} for (topic, partition), end in ends.items()]
        started = {"kind": "started", "cause": "earliest", "source_end": 0, "target_end": 0, "records": 0}
        self.append("offset_syncs", *({**one, **started} for one in rows), *rows, at_ms=at_ms)

    def _copied(self, topic: str, partition: int, end: int) -> Row:
        return {
            **self._partition(topic, partition),
            "source_end": end,
            "target_end": end,
            "records": end,
            "kind": "copied",
        }

    def lost(self, topic: str, partition: int, start: int, end: int, **values: object) -> None:
        """Source offsets behind what was copied; `values` make it another kind of row, or another round."""
        self.append("offset_syncs", self.lost_row(topic, partition, start, end, **values))

    def lost_row(self, topic: str, partition: int, start: int, end: int, **values: object) -> Row:
        return {
            **self._partition(topic, partition),
            "source_start": start,
            "source_end": end,
            "target_start": start,
            "target_end": start,
            "kind": "lost",
            "cause": "retention",
            **values,
        }

    def _partition(self, topic: str, partition: int) -> dict[str, object]:
        return {
            **_FLOW,
            "writer": f"flow:{FLOW}",
            "writer_epoch": 1,
            "source_topic": topic,
            "source_topic_id": f"id-of-{topic}",
            "source_partition": partition,
            "target_topic": f"east.{topic}",
            "target_topic_id": f"id-of-east.{topic}",
            "target_partition": partition,
        }

    def watermark(
        self,
        topic: str,
        partition: int,
        *,
        end: int,
        last_stable: int | None = None,
        at_ms: int | None = None,
        cluster: str = "east",
    ) -> None:
        at_ms = self.clock.now_ms() if at_ms is None else at_ms
        of_partition = {"topic": topic, "topic_id": f"id-of-{topic}", "partition": partition}
        ends = {
            "last_stable": end if last_stable is None else last_stable,
            "high_watermark": end,
            "read_at_ms": at_ms,
        }
        self.append("high_watermarks", {"cluster": cluster, **of_partition, **ends}, at_ms=at_ms)

    def sign(self, *, round_number: int, at_ms: int | None = None, cluster: str = "east") -> None:
        """A recorder says that all ends are what it recorded last."""
        of_recorder = {"writer": f"recorder:{cluster}", "source_cluster": cluster, "host": "elsewhere:1:1"}
        self.append("writers", {**of_recorder, "event": "alive", "round": round_number}, at_ms=at_ms)

    def topic(self, name: str, *events: str, topic_id: str | None = None) -> None:
        """What the recorder of the source saw, round after round."""
        of_topic = {"topic": name, "topic_id": topic_id or f"id-of-{name}", "configuration": "{}"}
        topic = {"cluster": "east", **of_topic, "writer_epoch": 1}
        for event in events:
            self.append("topics", {**topic, "event": event})

    def operation(
        self,
        kind: str,
        content: Mapping[str, object] | None = None,
        *,
        flow: str = FLOW,
        reason: str | None = None,
    ) -> str:
        """A row as any program may have written it; returns its operation id."""
        row = {
            "operation_id": random_id(),
            "kind": kind,
            "flow": flow,
            "operator": "somebody",
            "reason": reason,
            "ticket": None,
            "content": json.dumps(content or {}),
        }
        DeltaFactLog(self.path, self.clock).append_next(OPERATOR_WRITER, "operations", [row])
        return str(row["operation_id"])

    def stopped(self, topic: str, partition: int, cause: str, *, topic_id: str | None = None) -> None:
        coordinates = {"topic": topic, "topic_id": topic_id or f"id-of-{topic}", "partition": partition}
        said = {"cause": cause, "message": "what was seen", "next": "what to do"}
        self.operation("partition_stopped", {**coordinates, **said}, reason=cause)

    def starting(self, mark: str, *, at_ms: int | None = None) -> None:
        """A process says that it is about to run the flow."""
        content = json.dumps({"host": mark, "until_caught_up": False})
        self.append("operations", {"kind": "driver_starting", "flow": FLOW, "content": content}, at_ms=at_ms)

    def receipt(self, request: str, kind: str, result: str, message: str) -> None:
        answer = {"request": request, "request_kind": kind, "result": result, "message": message}
        self.operation("receipt", answer)

    def operations(self) -> Sequence[Mapping[str, Any]]:
        """Rows of `operations` that a person asked for."""
        found = DeltaTable(table_uri(self.path, "operations")).to_pyarrow_table().to_pylist()
        return [row for row in found if row["operator"] != "somebody"]


def _of_writer(table: str, made: Row) -> tuple[str, object, object]:
    return table, made["writer"], made["writer_epoch"]


@dataclass(frozen=True)
class Operated(WrittenLedger):
    """One flow and its ledger; `command` runs `mirror-ledger` on it."""

    config: MirrorConfig
    capture: pytest.CaptureFixture[str]

    def command(self, *arguments: str) -> Done:
        return command(self.capture, self.config, *arguments)


def operated(
    folder: Path, ledger: Path, capture: pytest.CaptureFixture[str], *, topics: str = '[".*"]'
) -> Operated:
    """A flow in a folder of its own, with a copy of a ledger."""
    config = write_config(folder, {"east": NOBODY, "west": NOBODY}, {FLOW: f"topics = {topics}"})
    return Operated(copied_to(folder, ledger), LaterClock(), config, capture)


def operated_copy(
    folder: Path, written: WrittenLedger, capture: pytest.CaptureFixture[str], *, topics: str = '[".*"]'
) -> Operated:
    """The same with a copy of a ledger that several tests begin with: rounds go on where those of it end."""
    made = replace(operated(folder, Path(written.path), capture, topics=topics), clock=written.clock)
    made._appended.update({of: set(rounds) for of, rounds in written._appended.items()})
    return made


def own_mark() -> str:
    return str(LocalProcesses().own())


def mark_of_a_gone_process() -> str:
    own = LocalProcesses().own()
    return GONE.format(host=own.host, pid=own.pid, place=own.place)


def lag_by_thirty(idle: Operated) -> None:
    """East's `orders` is copied up to 100 of 130, by a driver that has ended; `billing` stands at 90."""
    claim = {
        **_FLOW,
        "writer": f"flow:{FLOW}",
        "writer_epoch": 1,
        "round": 0,
        "event": "claimed",
        "host": mark_of_a_gone_process(),
        "source_cluster_id": "E",
        "target_cluster_id": "W",
    }
    idle.append("writers", claim)
    idle.copied({("orders", 0): 100})
    idle.watermark("orders", 0, end=100)
    idle.watermark("orders", 0, end=130)
    committed = {"group_id": "billing", "partition": 0, "committed_offset": 90, "read_at_ms": 1}
    orders = {"cluster": "east", "topic": "orders", "topic_id": "id-of-orders"}
    idle.append("checkpoints", {**orders, **committed})
