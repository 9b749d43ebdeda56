"""What a recorder appends: its claim, and the end of one partition."""

from ledger.facts.state import FactLog, WriterClaim
from ledger.facts.tables import Row

WRITER = "recorder:east"
TABLE = "high_watermarks"


def claim(
    log: FactLog, host: str = "host:1:1", *, writer: str = WRITER, after: int | None = None
) -> WriterClaim:
    """Claim the writer's next epoch on `TABLE`."""
    return log.claim(writer, [TABLE], claim_row(host), after=after)


def claim_row(host: str) -> Row:
    """What a claim says."""
    return {
        "event": "claimed",
        "config_hash": None,
        "host": host,
        "flow": None,
        "source_cluster": "east",
        "source_cluster_id": "id",
        "target_cluster": None,
        "target_cluster_id": None,
        "producer_id": None,
        "former_producer_id": None,
        "source_metadata_offset": None,
        "target_metadata_offset": None,
    }


def watermark(offset: int) -> Row:
    """A row of `TABLE` that says where the partition ended."""
    return {
        "cluster": "east",
        "topic": "t",
        "topic_id": "T",
        "partition": 0,
        "leader_epoch": None,
        "log_start": 0,
        "last_stable": offset,
        "high_watermark": offset,
        "read_at_ms": 1,
        "confirms_others": None,
        "previous_read_at_ms": None,
    }
