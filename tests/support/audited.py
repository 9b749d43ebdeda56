"""A ledger that is audited by the command and by the job, in full and by what came since a cut."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger.store.delta_tables import create_tables
from ledger.store.snapshots import open_ledger
from tests.support.drivers import loaded
from tests.support.operated import Operated, lag_by_thirty, operated


@dataclass(frozen=True)
class AuditedLedger:
    """One flow has copied `orders` up to 100, lost what follows up to 110, and was audited between the two."""

    flow: Operated
    since: str

    @classmethod
    def begun(cls, folder: Path, capture: pytest.CaptureFixture[str]) -> "AuditedLedger":
        create_tables(str(folder / "empty"), now_ms=1)
        flow = operated(folder, folder / "empty", capture)
        lag_by_thirty(flow)
        since = open_ledger(flow.path).now().cut.token
        flow.lost("orders", 0, 100, 110)
        return cls(flow, since)

    def require_same(self, *, since: bool, broken: str | None) -> None:
        """The job prints what the command prints; `broken`: what both find, and then end with 4."""
        words = ["--since", self.since] if since else []
        file = Path(self.flow.path).parent / "audit.json"
        asked = ["--config", self.flow.config.file, *words, "-o", "json", "--to", str(file)]
        assert loaded("audit_ledger").main(asked) == (4 if broken else 0)
        said = self.flow.capture.readouterr().err
        assert ("breaks an invariant" in said) == (broken is not None)
        assert broken is None or broken in said
        done = self.flow.command("audit", *words, "-o", "json")
        assert done.code == (4 if broken else 0), done.err
        assert json.loads(file.read_text(encoding="utf-8")) == json.loads(done.out)
