"""`resync-keys` with bad input: a clear message, the documented exit code, nothing written."""

from pathlib import Path

import pytest

from tests.support.unreachable import UnreachableFlow

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
    with_ledger: UnreachableFlow, arguments: tuple[str, ...], telling: str
) -> None:
    assert telling in with_ledger.refused(*arguments, code=2)


def test_a_shared_target_is_refused_before_anything_is_reached(with_ledger: UnreachableFlow) -> None:
    message = with_ledger.with_line('target_mode = "shared"').refused(*COMMAND, code=5)
    assert 'target_mode = "shared"' in message
    assert "no keys were compared" in message


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_an_unreachable_broker_is_named_and_nothing_is_written(
    with_ledger: UnreachableFlow, dry_run: tuple[str, ...]
) -> None:
    assert str(with_ledger.port) in with_ledger.refused(*COMMAND, *dry_run, code=1)


def test_a_path_that_is_no_ledger_is_refused(without_ledger: UnreachableFlow) -> None:
    assert "is not a ledger" in without_ledger.refused(*COMMAND, code=2)
    assert not Path(without_ledger.config.ledger.path).exists()
