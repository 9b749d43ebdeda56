"""Notices when a flow continues with another configuration than its last driver had, or its file changes meanwhile."""

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger.config.file import load_config
from ledger.config.flow import FlowConfig
from ledger.config.mirror import MirrorConfig
from ledger.domain.operations.flow_events import ConfigurationChanged
from ledger.errors import ConfigurationError
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


@dataclass(slots=True)
class ConfigurationFile:
    """The file that a driver was started with, as far as it is about one flow; it is read when it has changed."""

    config: MirrorConfig
    flow_name: str
    _seen: tuple[int, int, int] | None = (-1, -1, -1)
    _troubles: Mapping[str, str] = field(default_factory=dict)

    def troubles(self) -> Mapping[str, str]:
        """Under the file's name what it says otherwise than the driver does, by keys, or why it cannot be used."""
        state = _state_of(Path(self.config.file))
        if state != self._seen:
            self._seen = state
            said = "; ".join(self._differences())
            self._troubles = {self.config.file: said} if said else {}
        return self._troubles

    def _differences(self) -> Iterator[str]:
        try:
            now = load_config(Path(self.config.file))
        except ConfigurationError as error:
            yield from error.problems
            return
        started = self.config.flow(self.flow_name)
        flow = now.flows.get(self.flow_name)
        if flow is None or not flow.enabled:
            yield f"flows.{self.flow_name} is {'gone' if flow is None else 'disabled'}"
            return
        for key in _changed_keys(configuration_of(started), configuration_of(flow)):
            yield f"flows.{self.flow_name}.{key} is another"
        for alias in (started.source, started.target):
            if now.clusters.get(alias) != self.config.cluster(alias):
                yield f"clusters.{alias} is another"
        if now.ledger != self.config.ledger:
            yield "ledger is another"


def _state_of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
