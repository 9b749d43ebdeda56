"""The end of a command that refused some partitions, or all of them."""

from collections.abc import Mapping

from ledger.errors import PreconditionError, UnsafeError
from ledger.facts.syncs import PartitionPair


def refuse_partitions(headline: str, reasons: Mapping[PartitionPair, str], *, of: int) -> None:
    """Say why, by partition: some of so many refused is exit code 4, all of them 5; none is no error."""
    if not reasons:
        return
    lines = "\n  ".join(
        f"{pair.source.topic} partition {pair.source.partition}: {reason}" for pair, reason in reasons.items()
    )
    message = f"{headline}:\n  {lines}"
    raise PreconditionError(message) if len(reasons) == of else UnsafeError(message)
