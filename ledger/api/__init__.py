"""A ledger from Python: what the commands that only read are built on. No JVM, no broker.

`Ledger` is the ledger at one cut; the values that it answers with are frozen, and tables are there as Arrow too.
Every error is one of `ledger.errors`.
"""

from ledger.adapters.duck.sealed import SealedLedger
from ledger.api.answers import (
    Answer,
    FlowRequest,
    PartitionLag,
    PartitionLoss,
    Place,
    Status,
    TranslatedOffset,
)
from ledger.api.asked import AsOf
from ledger.api.ledger import Ledger

__all__ = [
    "Answer",
    "AsOf",
    "FlowRequest",
    "Ledger",
    "PartitionLag",
    "PartitionLoss",
    "Place",
    "SealedLedger",
    "Status",
    "TranslatedOffset",
]
