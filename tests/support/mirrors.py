"""A configured flow over real clusters with a ledger whose rows a test writes itself, and its examination."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ledger.answers.maintenance import init_ledger
from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.examination import examine
from ledger.doctor.results import CheckResult
from tests.support.ledger_rows import append

FLOW = "flow"
_STAMP = {"writer": f"flow:{FLOW}", "writer_epoch": 1, "round": 1, "recorded_at_ms": 1}
_SYNC = {
    "flow": FLOW,
    "source_cluster": "east",
    "target_cluster": "west",
    "target_topic_id": "x",
    "source_start": 0,
    "target_start": 0,
    "first_sequence": 0,
    "gaps": [],
    "kind": "copied",
    "recovered": False,
    "bytes": 1,
    "raw_batches": 1,
    "record_path_batches": 0,
}
_CLAIM = {"event": "claimed", "host": "h", "flow": FLOW, "source_cluster": "east", "target_cluster": "west"}


@dataclass(frozen=True)
class Mirror:
    """A flow from `east` to `west`; nothing has run."""

    file: Path
    config: MirrorConfig

    @classmethod
    def of(
        cls, folder: Path, servers: Mapping[str, str], topics: str, *, properties: str = "", flow: str = ""
    ) -> "Mirror":
        """`topics` is a pattern; `properties` are lines of both clusters, `flow` lines of the flow."""
        file = folder / "mirror.toml"
        file.write_text(
            f"""
[ledger]
path = "{folder / "ledger"}"
[clusters.east]
bootstrap_servers = "{servers["east"]}"
{properties}
[clusters.west]
bootstrap_servers = "{servers["west"]}"
{properties}
[flows.{FLOW}]
source = "east"
target = "west"
topics = ['{topics}']
{flow}
""",
            encoding="utf-8",
        )
        config = load_config(file)
        init_ledger(config)
        return cls(file, config)

    def examined(self, *, probe: bool = False) -> list[CheckResult]:
        return examine(self.config, [], probe=probe, retention_share=0.25)

    def one(self, check: Check) -> CheckResult:
        """The only finding of a check."""
        (finding,) = [finding for finding in self.examined() if finding.check is check]
        return finding

    def record_position(self, topic: str, topic_id: str, partition: int, position: int) -> None:
        """As if the flow had copied a partition up to an offset."""
        self._append(
            "offset_syncs",
            {
                **_SYNC,
                "source_topic": topic,
                "source_topic_id": topic_id,
                "source_partition": partition,
                "target_topic": f"east.{topic}",
                "target_partition": partition,
                "source_end": position,
                "target_end": position,
                "records": position,
            },
        )

    def record_claim(self, source_cluster_id: str, target_cluster_id: str, *, at_ms: int) -> None:
        ids = {"source_cluster_id": source_cluster_id, "target_cluster_id": target_cluster_id}
        self._append("writers", {**_CLAIM, **ids, "producer_id": 1, "recorded_at_ms": at_ms})

    def _append(self, table: str, row: Mapping[str, object]) -> None:
        append(self.config.ledger.path, table, [{**_STAMP, **row}])


def verdicts(findings: list[CheckResult], subject: str) -> dict[Check, Verdict]:
    return {finding.check: finding.verdict for finding in findings if finding.subject == subject}
