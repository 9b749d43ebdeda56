"""A ledger from Python: what the commands that only read are built on. No JVM, no broker.

`Ledger` is the ledger at one cut; the values that it answers with are frozen, and tables are there as Arrow too.
Every error is one of `ledger.errors`.
"""

from ledger.answers.elsewhere import SealedLedger
from ledger.answers.flow_values import PartitionLag, PartitionLoss, Status
from ledger.answers.ledger import AsOf, Ledger
from ledger.answers.values import Answer, Audit, FlowRequest, Place

__all__ = [
    "Answer",
    "AsOf",
    "Audit",
    "FlowRequest",
    "Ledger",
    "PartitionLag",
    "PartitionLoss",
    "Place",
    "SealedLedger",
    "Status",
]
