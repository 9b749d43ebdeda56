"""Fills a cluster with a whole workload."""

from collections.abc import Callable

from ledger.sandbox.log_gaps import produce_inventory, produce_transfers
from ledger.sandbox.workload import RecordSource, Workload, produce_events

RECORDS_ARE_OLDER_BY_MS = 600_000
"""How long before now a workload's times start: none may lie in the future."""


def produce(servers: str, workload: Workload, say: Callable[[str], None]) -> int:
    """Create and fill every topic of the workload; returns the records produced. `say` gets the progress in words."""
    source = RecordSource(workload)
    say(workload.inventory)
    produce_inventory(servers, workload, source)
    produce_events(servers, workload, source, lambda: say(f"{source.taken:,} records"))
    say(workload.transfers)
    produce_transfers(servers, workload, source)
    return source.taken
