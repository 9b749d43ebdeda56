"""A store that takes requests and answers none: who reads or merges files of the ledger there gives it up."""

import time
from collections.abc import Callable

import pytest

from ledger.store import places
from ledger.store.merging import TableFolder
from tests.support.stores import silent_store


def _read(folder: TableFolder) -> None:
    with folder.readable(["rows.parquet"]):
        pass


@pytest.mark.parametrize(
    "act",
    [_read, lambda folder: folder.delete("rows.parquet"), TableFolder.remove],
    ids=["read", "delete", "remove"],
)
def test_it_is_given_up(act: Callable[[TableFolder], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The library holds the interpreter while it waits: drivers, recorders and who serves would stand still."""
    monkeypatch.setitem(places.PROMPT, "timeout", "300ms")
    monkeypatch.setitem(places.PROMPT, "retry_timeout", "300ms")
    began = time.monotonic()
    with silent_store(monkeypatch), pytest.raises(OSError, match="S3"):
        act(TableFolder("s3://elsewhere/ledger/topics"))
    assert time.monotonic() - began < 60, "else it is minutes"
