"""A cluster that is lost for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from ledger.sandbox import Sandbox


@contextmanager
def lost(sandbox: Sandbox) -> Iterator[None]:
    """East is killed, and is back behind the body."""
    sandbox.kill("east")
    try:
        yield
    finally:
        sandbox.start("east")
