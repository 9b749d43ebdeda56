"""A ledger as a flow leaves it, written without a broker or a JVM, and commands run in this process."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from ledger import app
from ledger.adapters.arrow_schema import arrow_schema
from ledger.adapters.delta.state import DeltaOperationLog
from ledger.adapters.delta.tables import table_uri
from ledger.adapters.process_table import LocalProcesses
from ledger.adapters.system import SystemClock
from ledger.cli.main import main
from ledger.config import MirrorConfig, load_config
from ledger.schema import TABLE_BY_NAME
from tests.support.cases import default_row

FLOW = "east-to-west"
CONFIG = """
[ledger]
path = "{ledger}"
[clusters.east]
bootstrap_servers = "127.0.0.1:9"
[clusters.west]
bootstrap_servers = "127.0.0.1:9"
[flows.east-to-west]
source = "east"
target = "west"
topics = [".*"]
"""
GONE = "{host}:{pid}:1"
"""The mark of an earlier process that had this one's id."""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Operated:
    """One flow and its ledger; `command` runs `mirror-ledger` on it."""

    config_file: Path
    config: MirrorConfig
    capture: pytest.CaptureFixture[str]

    def command(self, *arguments: str) -> Done:
        self.capture.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["--config", str(self.config_file), *arguments])
        captured = self.capture.readouterr()
        assert "Traceback" not in captured.err
        return Done(int(str(ended.value.code)), captured.out, captured.err)

    def append(self, table: str, *, at_ms: int | None = None, **values: object) -> None:
        """One row, as Spark commits it."""
        at_ms = SystemClock().now_ms() if at_ms is None else at_ms
        row = {**default_row(TABLE_BY_NAME[table].columns), **values, "recorded_at_ms": at_ms}
        data = pa.Table.from_pylist([row], schema=arrow_schema(TABLE_BY_NAME[table]))
        metadata = {"userMetadata": json.dumps({"recorded_at_ms": at_ms})}
        write_deltalake(
            table_uri(self.config.ledger.path, table),
            data,
            mode="append",
            commit_properties=CommitProperties(custom_metadata=metadata),
        )

    def writer(
        self, event: str, host: str, *, epoch: int = 1, round_number: int = 0, at_ms: int | None = None
    ) -> None:
        self.append(
            "writers",
            at_ms=at_ms,
            writer=f"flow:{FLOW}",
            writer_epoch=epoch,
            round=round_number,
            event=event,
            host=host,
            flow=FLOW,
            source_cluster="east",
            target_cluster="west",
        )

    def copied(self, topic: str, partition: int, *, source_end: int, at_ms: int | None = None) -> None:
        """All source offsets of the partition up to `source_end`."""
        self.append(
            "offset_syncs",
            at_ms=at_ms,
            writer=f"flow:{FLOW}",
            writer_epoch=1,
            round=1,
            flow=FLOW,
            source_cluster="east",
            target_cluster="west",
            source_topic=topic,
            source_topic_id=f"id-of-{topic}",
            source_partition=partition,
            target_topic=f"east.{topic}",
            target_topic_id=f"id-of-east.{topic}",
            target_partition=partition,
            source_start=0,
            source_end=source_end,
            target_start=0,
            target_end=source_end,
            records=source_end,
            kind="copied",
            cause=None,
        )

    def watermark(self, topic: str, partition: int, *, end: int) -> None:
        self.append(
            "high_watermarks",
            cluster="east",
            topic=topic,
            topic_id=f"id-of-{topic}",
            partition=partition,
            last_stable=end,
            high_watermark=end,
        )

    def lost(self, topic: str, partition: int, start: int, end: int, **values: object) -> None:
        """Source offsets behind what was copied; `values` make it another kind of row, or another round."""
        self.append(
            "offset_syncs",
            **{
                "writer_epoch": 1,
                "round": 2,
                "flow": FLOW,
                "source_cluster": "east",
                "target_cluster": "west",
                "source_topic": topic,
                "source_topic_id": f"id-of-{topic}",
                "source_partition": partition,
                "target_topic": f"east.{topic}",
                "target_topic_id": f"id-of-east.{topic}",
                "target_partition": partition,
                "source_start": start,
                "source_end": end,
                "target_start": start,
                "target_end": start,
                "kind": "lost",
                "cause": "retention",
                **values,
            },
        )

    def topic(self, name: str, event: str, *, topic_id: str | None = None, round_number: int = 1) -> None:
        """What the recorder of the source saw."""
        self.append(
            "topics",
            cluster="east",
            topic=name,
            topic_id=topic_id or f"id-of-{name}",
            event=event,
            writer_epoch=1,
            round=round_number,
        )

    def operation(self, kind: str, *, flow: str = FLOW, reason: str | None = None, **content: object) -> str:
        log = DeltaOperationLog(self.config.ledger.path, SystemClock(), operator="somebody")
        return log.record(kind, flow=flow, reason=reason, content=content)

    def stopped(self, topic: str, partition: int, cause: str, **content: object) -> None:
        coordinates = {"topic": topic, "topic_id": f"id-of-{topic}", "partition": partition}
        said = {"cause": cause, "message": "what was seen", "next": "what to do", **content}
        self.operation("partition_stopped", reason=cause, **{**coordinates, **said})

    def receipt(self, request: str, kind: str, result: str, message: str) -> None:
        self.operation("receipt", request=request, request_kind=kind, result=result, message=message)

    def operations(self) -> Sequence[Mapping[str, Any]]:
        """Rows of `operations` that a person asked for."""
        found = DeltaTable(table_uri(self.config.ledger.path, "operations")).to_pyarrow_table().to_pylist()
        return [row for row in found if row["operator"] != "somebody"]


def make_operated(folder: Path, capture: pytest.CaptureFixture[str]) -> Operated:
    """A flow that has never run."""
    config_file = folder / "mirror.toml"
    config_file.write_text(CONFIG.format(ledger=folder / "ledger"), encoding="utf-8")
    config = load_config(config_file)
    app.init_ledger(config)
    return Operated(config_file, config, capture)


def own_mark() -> str:
    return str(LocalProcesses().own())


def mark_of_a_gone_process() -> str:
    own = LocalProcesses().own()
    return GONE.format(host=own.host, pid=own.pid)
