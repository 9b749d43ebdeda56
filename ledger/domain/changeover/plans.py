"""What a plan consists of, and its id.

The id is a hash over exactly what the plan would do: kind, scope, choices, hooks, steps and the codes of what stands
against it. Positions and forecasts are not in it, so a plan stays the same while records are copied, and is stale
when another one would be made.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Self

from ledger.domain.changeover.blockers import BlockerCode
from ledger.domain.changeover.steps import ChangeoverKind, StepName

_ID_LENGTH = 16


class FenceChoice(StrEnum):
    """How producers are kept from the former source."""

    CLOSED = "closed"  # access control lists deny them
    SHUT = "shut"  # the topic takes no batch; with word that producers are stopped
    HOOK = "hook"  # an external command
    NONE = "none"  # not at all: the reason is recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """A topic of the former source, and the one that a flow copies it to."""

    flow: str
    source_topic: str
    source_topic_id: str
    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the operator chose.

    `topics` None: all that the flows of the pair copy, later ones too, less what is `left_out`; else their names at the
    target. `groups` None: all that have committed at the former source. `accepted`: statuses of translations, by name.
    `unproven`: why an unproven fence is enough. `abort_transactions_after`: open transactions at the fenced source are
    aborted so many seconds after it, None: never. `watch_seconds`: for so long commits have to stand still before
    groups are set, and to stay where they were set, 0: nobody watches. `hook_seconds`: a hook is ended after these.
    """

    topics: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    accepted: tuple[str, ...] = ()
    fence: FenceChoice = FenceChoice.CLOSED
    unproven: str | None = None
    producers_stopped: bool = False
    confirmed_super_users: tuple[str, ...] = ()
    abort_transactions_after: float | None = None
    source_given_up: bool = False
    abort_marker: bool = False
    accept_unproven_shut_out: bool = False
    overwrite_newer: bool = False
    reverse: bool = True
    despite_objectives: bool = False
    drain_seconds: float = 300.0
    groups_seconds: float = 300.0
    progress_seconds: float = 0.0
    quiet_seconds: float = 5.0
    most_quiet_seconds: float = 30.0
    watch_seconds: float = 10.0
    hook_seconds: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `apply` carries out, and nothing else.

    `direction`: the operation that last changed a direction of the pair, None: none did. `permissions`: a digest of
    what both clusters allow to whom, as recorded. `hooks`: external commands by step.
    """

    kind: ChangeoverKind
    from_cluster: str
    from_cluster_id: str
    to_cluster: str
    to_cluster_id: str
    topics: tuple[PlannedTopic, ...]
    choices: Choices
    hooks: Mapping[StepName, str]
    direction: str | None
    permissions: str
    steps: tuple[StepName, ...]
    blockers: tuple[BlockerCode, ...]

    @property
    def flows(self) -> tuple[str, ...]:
        """The flows whose direction changes."""
        return tuple(sorted({topic.flow for topic in self.topics}))

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the topics where applications arrive, sorted."""
        return tuple(sorted({topic.topic for topic in self.topics}))

    @property
    def source_names(self) -> tuple[str, ...]:
        """Names of the topics that applications leave, sorted."""
        return tuple(sorted({topic.source_topic for topic in self.topics}))

    @property
    def plan_id(self) -> str:
        """Equal for plans that would do the same."""
        return id_of(self.content())

    def content(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "kind": str(self.kind),
            "from_cluster": self.from_cluster,
            "from_cluster_id": self.from_cluster_id,
            "to_cluster": self.to_cluster,
            "to_cluster_id": self.to_cluster_id,
            "topics": [asdict(topic) for topic in self.topics],
            "choices": _choices_content(self.choices),
            "hooks": {str(step): command for step, command in sorted(self.hooks.items())},
            "direction": self.direction,
            "permissions": self.permissions,
            "steps": [str(step) for step in self.steps],
            "blockers": [str(code) for code in self.blockers],
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        """Raises `KeyError`, `TypeError` or `ValueError` for what is no plan of this program."""
        return cls(
            kind=ChangeoverKind(content["kind"]),
            from_cluster=content["from_cluster"],
            from_cluster_id=content["from_cluster_id"],
            to_cluster=content["to_cluster"],
            to_cluster_id=content["to_cluster_id"],
            topics=tuple(PlannedTopic(**topic) for topic in content["topics"]),
            choices=_choices(content["choices"]),
            hooks={StepName(step): command for step, command in content["hooks"].items()},
            direction=content["direction"],
            permissions=content["permissions"],
            steps=tuple(map(StepName, content["steps"])),
            blockers=tuple(map(BlockerCode, content["blockers"])),
        )

    def differences(self, other: "Plan") -> list[str]:
        """Keys in which another plan is not the same."""
        mine, others = self.content(), other.content()
        return [name for name in mine if mine[name] != others[name]]


def _choices_content(choices: Choices) -> dict[str, object]:
    """Without what plans of earlier versions lack, where nothing is said by it: their ids stay theirs."""
    found = {name: _plain(value) for name, value in asdict(choices).items()}
    return {name: value for name, value in found.items() if value or name not in _ADDED_KEYS}


_ADDED_KEYS: Mapping[str, object] = {"left_out": ()}
"""Keys that plans of earlier versions lack, with what they mean by that."""


def id_of(content: Mapping[str, Any]) -> str:
    """The id of a plan with this content, whichever version of the program wrote it."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]


def _choices(content: Mapping[str, Any]) -> Choices:
    known = {**_ADDED_KEYS, **content}
    values = {field.name: known[field.name] for field in fields(Choices)}
    tuples = {
        name: _as_tuple(values[name])
        for name in ("topics", "left_out", "groups", "accepted", "confirmed_super_users")
    }
    return Choices(**{**values, **tuples, "fence": FenceChoice(values["fence"])})


def _as_tuple(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _plain(value: object) -> object:
    if isinstance(value, StrEnum):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
