"""Fences of topics, as `fence` and `unfence` make and lift them."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.hook_process import HookProcesses
from ledger.adapters.kafka.fencing.fenced_cluster import KafkaFencing
from ledger.adapters.system import SystemClock
from ledger.app.answers import run_query, snapshot
from ledger.app.wiring import operator_operations
from ledger.catalog import Value
from ledger.config.mirror import MirrorConfig
from ledger.domain.fences.receipts import FenceHow
from ledger.domain.topics.topic_settings import is_fence
from ledger.errors import ClusterUnavailableError, UsageError
from ledger.operations.directions import require_not_left
from ledger.operations.fencing.fencing import fence, leave_open, refusal
from ledger.operations.fencing.lifting import AskedLifting, unfence
from ledger.operations.fencing.measures import SETTING
from ledger.operations.fencing.parts import AskedFence, FenceParts, FenceResult, UnfenceResult
from ledger.schema import TOPICS

_HOUR_MS = 3_600_000


def fence_topics(
    config: MirrorConfig, asked: AskedFence, say: Callable[[str], None], *, operation_id: str | None = None
) -> FenceResult:
    """Fence topics of a cluster; none named: all that flows of the configuration read there.

    `operation_id`: what the fence is a part of, None: it is an operation of its own.
    """
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    with fence_parts(config, asked.cluster, state, say) as parts:
        known = {one.topic: one.topic_id for one in state.last_topic_states(asked.cluster)}
        topics = asked.topics or _read_by_flows(config, asked.cluster, _listed(parts, known))
        if not topics:
            raise UsageError(
                f"no flow of the configuration reads a topic of {asked.cluster}: name topics by --topic; nothing was "
                "changed or recorded"
            )
        return fence(
            replace(asked, topics=tuple(sorted(set(topics))), known_ids=known),
            parts,
            operation_id=operation_id,
        )


def leave_topics_open(config: MirrorConfig, asked: AskedFence, *, operation_id: str) -> FenceResult:
    """Record that topics of a cluster are not fenced, and why that is enough; it may be unreachable."""
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    known = {one.topic: one.topic_id for one in state.last_topic_states(asked.cluster)}
    with fence_parts(config, asked.cluster, state, lambda _line: None) as parts:
        return leave_open(replace(asked, known_ids=known), parts, operation_id=operation_id)


def fence_refusal(config: MirrorConfig, asked: AskedFence) -> str | None:
    """Why such a fence would be refused now; None: it would not. Changes and records nothing."""
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    with fence_parts(config, asked.cluster, state, _silent) as parts:
        return refusal(asked, parts)


def _silent(_line: str) -> None:
    """For who follows nothing."""


def unfence_topics(
    config: MirrorConfig, asked: AskedLifting, say: Callable[[str], None], *, operation_id: str | None = None
) -> UnfenceResult:
    """Lift fences of a cluster; `operation_id`: what that is a part of, None: it is an operation of its own."""
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    if operation_id is None:
        _require_not_left(config, asked, state)
    with fence_parts(config, asked.cluster, state, say) as parts:
        return unfence(asked, parts, operation_id=operation_id)


def _require_not_left(config: MirrorConfig, asked: AskedLifting, state: DeltaLedgerState) -> None:
    """A fence `shut` would stop what is mirrored back as well: it is lifted before that."""
    kept = [
        one.fence.topic
        for one in state.fences().at(asked.cluster)
        if one.fence.how != FenceHow.SHUT and (asked.topics is None or one.fence.topic in asked.topics)
    ]
    require_not_left(
        asked.cluster, kept, config.clusters, state.directions(), undone="nothing was lifted or recorded"
    )


@contextmanager
def fence_parts(
    config: MirrorConfig, cluster: str, state: DeltaLedgerState, say: Callable[[str], None]
) -> Iterator[FenceParts]:
    """What fences of a cluster are made with: the mirror's credentials read, those of an administrator change."""
    known, clock = config.cluster(cluster), SystemClock()
    with (
        closing(KafkaFencing(cluster, known, clock)) as reader,
        closing(KafkaFencing(cluster, known.for_administration, clock)) as control,
    ):
        yield FenceParts(
            reader=reader,
            control=control,
            operations=operator_operations(config),
            hooks=HookProcesses(config.secrets(os.environ)),
            clock=clock,
            sleep=time.sleep,
            say=say,
            mirror=known.mirror_principal,
            identities=state.identities(),
            fences=state.fences(),
            pauses=lambda: write_pauses(config, cluster, now_ms=clock.now_ms()),
            recorded_limits=lambda: recorded_limits(config, cluster),
        )


def recorded_limits(config: MirrorConfig, cluster: str) -> dict[str, str | None]:
    """By topic of a cluster its own `max.message.bytes` as recorded last, None: it had none; no fence is among them."""
    rows = open_ledger(config.ledger.path).now((TOPICS.name,)).rows(TOPICS.name, [("cluster", "=", cluster)])
    found = {}
    for row in sorted(rows, key=lambda row: (row["writer_epoch"], row["round"])):
        limit = json.loads(row["configuration"]).get(SETTING)
        if not is_fence(SETTING, limit):
            found[row["topic"]] = limit
    return found


def write_pauses(config: MirrorConfig, cluster: str, *, now_ms: int) -> Mapping[tuple[str, int], float]:
    """By topic id and partition for how many seconds its writers paused at most in the last hour."""
    asked: dict[str, Value] = {"cluster": cluster, "since_ms": now_ms - _HOUR_MS}
    rows = run_query(snapshot(config, None), "write_pauses", asked).to_pylist()
    return {
        (row["topic_id"], row["partition"]): row["longest_pause_ms"] / 1000
        for row in rows
        if row["longest_pause_ms"] is not None
    }


def _listed(parts: FenceParts, known: Mapping[str, str]) -> list[str]:
    """Names of the cluster's topics; where it does not answer those that a recorder has seen."""
    try:
        return [topic.name for topic in parts.reader.topics().values() if not topic.internal]
    except ClusterUnavailableError:
        return list(known)


def _read_by_flows(config: MirrorConfig, cluster: str, names: list[str]) -> tuple[str, ...]:
    selections = [
        config.topic_selection(flow.name) for flow in config.enabled_flows if flow.source == cluster
    ]
    return tuple(name for name in names if any(one.selects(name) for one in selections))
