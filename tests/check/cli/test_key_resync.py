"""`resync-keys` with bad input: a clear message, the documented exit code, nothing written."""

from pathlib import Path

import pytest

from tests.check.cli.test_bad_input import config_file, dead_port, ledger, refused, versions

__all__ = ["config_file", "dead_port", "ledger"]
COMMAND = ("resync-keys", "east-to-west", "--topic", "orders")


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (("resync-keys", "nope", "--topic", "orders"), "nope"),
        (("resync-keys", "east-to-west"), "--topic"),
        ((*COMMAND, "--partition", "-1"), "-1"),
        ((*COMMAND, "--partition", "first"), "first"),
    ],
)
def test_bad_arguments_are_named(
    config_file: Path, ledger: Path, arguments: tuple[str, ...], telling: str
) -> None:
    before = versions(ledger)
    assert telling in refused("--config", str(config_file), *arguments, code=2)
    assert versions(ledger) == before


def test_a_shared_target_is_refused_before_anything_is_reached(config_file: Path, ledger: Path) -> None:
    text = config_file.read_text(encoding="utf-8")
    config_file.write_text(f'{text}target_mode = "shared"\n', encoding="utf-8")
    before = versions(ledger)
    message = refused("--config", str(config_file), *COMMAND, code=5)
    assert 'target_mode = "shared"' in message
    assert "no keys were compared" in message
    assert versions(ledger) == before


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_an_unreachable_broker_is_named_and_nothing_is_written(
    config_file: Path, ledger: Path, dead_port: int, dry_run: tuple[str, ...]
) -> None:
    before = versions(ledger)
    message = refused("--config", str(config_file), *COMMAND, *dry_run, code=1)
    assert str(dead_port) in message
    assert versions(ledger) == before


def test_a_path_that_is_no_ledger_is_refused(config_file: Path) -> None:
    assert "is not a ledger" in refused("--config", str(config_file), *COMMAND, code=2)
    assert not (config_file.parent / "ledger").exists()
