"""Records when a flow continues with another configuration than its last driver had."""

import hashlib
import json
import logging
from collections.abc import Mapping
from typing import Any

from ledger.config.flow import FlowConfig
from ledger.domain.operations.flow_events import ConfigurationChanged
from ledger.ports.ledger import OperationLog

log = logging.getLogger(__name__)


def configuration_of(flow: FlowConfig) -> dict[str, Any]:
    """Every key of the flow with its value as JSON has it; flows hold no secrets.

    Without `enabled`: no driver ever runs with another value than true. Keys that came later, `on_tail_lost` and
    `opposite` and `sync_groups`, are among them only where they are given: a ledger of before has no other
    configuration for that.
    """
    left_out = {"enabled"} | ({"on_tail_lost"} if flow.on_tail_lost is None else set())
    left_out |= {"opposite"} if flow.opposite is None else set()
    left_out |= set() if flow.sync_groups else {"sync_groups", "sync_groups_seconds"}
    return flow.model_dump(mode="json", exclude=left_out)


def config_hash(flow: FlowConfig) -> str:
    """SHA-256 of the flow's configuration as JSON with sorted keys and without spaces."""
    text = json.dumps(configuration_of(flow), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def record_change(
    flow: FlowConfig,
    operations: OperationLog,
    *,
    last_hash: str | None,
    last_configuration: Mapping[str, Any] | None,
) -> None:
    """Record the configuration when it is not that of the last claim.

    `last_hash` None: no earlier claim says what it ran with, which is no change to warn of.
    `last_configuration` is what the ledger has under that hash, None when it has nothing.
    """
    new_hash = config_hash(flow)
    if new_hash == last_hash:
        return
    configuration = configuration_of(flow)
    changed = None if last_configuration is None else _changed_keys(last_configuration, configuration)
    if last_hash is not None:
        keys = "keys unknown" if changed is None else ", ".join(changed)
        log.warning("%s: the configuration is not that of the last driver: %s", flow.name, keys)
    change = ConfigurationChanged(
        old_hash=last_hash, new_hash=new_hash, changed=changed, configuration=configuration
    )
    operations.record(change, flow=flow.name, reason=None)


def _changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Keys whose values differ, those included that only one of the two has."""
    absent = object()
    return sorted(key for key in old.keys() | new.keys() if old.get(key, absent) != new.get(key, absent))
