"""Who runs beside a ledger that has an anchor keeps the anchor."""

import random
from pathlib import Path

import pytest

from ledger.config.file import load_config
from ledger.context import background_maintenance
from tests.support.operated import Operated
from tests.support.waiting import eventually


def test_what_runs_beside_writes_heads_that_the_command_compares(
    idle: Operated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "uniform", lambda _least, _most: 0.0)
    file = Path(idle.config.file)
    file.write_text(f'{file.read_text()}\n[evidence]\nanchor = "{tmp_path / "anchor"}"\n')
    idle.operation("pause", {})
    assert "nobody knows when heads were last written to the anchor" in idle.command("status").err
    with background_maintenance(load_config(file)):
        eventually(lambda: any(tmp_path.glob("anchor/**/*.json")), "heads are at the anchor")
    done = idle.command("verify-ledger")
    assert (done.code, "not checked" in done.err) == (0, False), done.err
    assert "heads were last written to the anchor at" in idle.command("status").err
