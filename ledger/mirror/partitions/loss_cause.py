"""Why source records were deleted before they could be copied, as far as that can be proved."""

from collections.abc import Mapping

from ledger.domain.facts import SyncCause

_UNLIMITED = "-1"


def loss_cause(configuration: Mapping[str, str]) -> SyncCause:
    """`deleted_records` where the topic's own settings rule retention out, else `retention`.

    `configuration`: what is set on the source topic itself; a broker's defaults prove nothing here.
    """
    if "delete" not in configuration.get("cleanup.policy", "delete"):
        return SyncCause.DELETED_RECORDS
    is_unlimited = all(configuration.get(name) == _UNLIMITED for name in ("retention.ms", "retention.bytes"))
    return SyncCause.DELETED_RECORDS if is_unlimited else SyncCause.RETENTION
