"""Mirror Ledger: Kafka mirroring on Spark with an append-only Delta Lake ledger of every offset.

`from ledger import Ledger` reads a ledger from Python; `ledger.api` has what it answers with.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ledger.answers.ledger import Ledger

__all__ = ["Ledger"]

if not TYPE_CHECKING:

    def __getattr__(name):
        """`Ledger` when it is asked for: whoever imports a part of the package does not wait for DuckDB and Arrow."""
        if name != "Ledger":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ledger.answers.ledger import Ledger

        return Ledger
