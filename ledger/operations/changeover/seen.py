"""What a plan is made from: the ledger at a cut, and what of both clusters answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ledger.config.flow import FlowConfig, TargetMode
from ledger.domain.changeover.steps import ChangeoverKind
from ledger.domain.fences.receipts import Fence
from ledger.domain.objectives import Objectives
from ledger.domain.operations.directions import Directions
from ledger.domain.operations.partition_events import RecordedStop
from ledger.domain.operations.requests import Pauses
from ledger.domain.topics.naming import NamingKind
from ledger.domain.writer_roles import RoleVerdict
from ledger.operations.figures.repeats import CommitsRead
from ledger.operations.groups.outcomes import Outcome, Place
from ledger.ports.ledger import FlowPosition

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCluster:
    """A cluster as the ledger knows it and as it answers.

    `live_id` None: it does not answer, `trouble` says why. `topic_ids`: of the topics that it has now, by name.
    `identity_problem`: why it is not the recorded cluster.
    """

    alias: str
    recorded_id: str | None
    live_id: str | None
    trouble: str | None
    topic_ids: Mapping[str, str]
    identity_problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFlow:
    """A flow from the former source into the target.

    `positions`: of topics that it selects, less what was deleted at both sides. `incarnations`: by source topic the id
    of the one that it copied last. `unmirrored`: selected source topics that it has no position of. `unrecorded`:
    target partitions of which the leader remembers more of the flow's records than the ledger has. `paused`: what its
    driver knows to be.
    """

    config: FlowConfig
    driver: RoleVerdict
    positions: Sequence[FlowPosition]
    incarnations: Mapping[str, str]
    stopped: Mapping[tuple[str, int], RecordedStop]
    unmirrored: Sequence[str]
    unrecorded: Sequence[tuple[str, int]]
    paused: Pauses = field(default_factory=Pauses)

    def may_write(self, topic: str) -> bool:
        """Whether its driver may yet write what it has fetched of a source topic."""
        return self.driver is RoleVerdict.IN_USE and not self.paused.covers(topic)

    @property
    def is_promotable(self) -> bool:
        """Whether only this flow writes to its topics, under the names that applications use."""
        keeps_names = self.config.topic_naming is NamingKind.IDENTITY
        return keeps_names and self.config.target_mode is TargetMode.EXCLUSIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCopied:
    """A topic that a flow has copied, and no enabled flow copies any more.

    `beyond`: how many offsets of it lie behind the map, None: nobody knows. `age_seconds`: of that reading, None:
    the source said so now.
    """

    flow: str
    source_topic: str
    topic: str
    beyond: int | None
    age_seconds: float | None = None


def every_group(_group: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All of it. `places`: answers of `group_translation`, `commits`: how old these are; `losses`: of each partition
    what would be lost.

    `not_copied`: topics of the pair that some flow has copied, and that no enabled flow copies. `elsewhere`: pairs of
    topics of which a mirror writes the one at the source (`scope.from_elsewhere`). `records_group`: whether recorders
    of the source keep a group of this name recorded.
    `active`: groups that have members at the target. `hindered`: by group and partition there what else would keep it
    from being set. `untold`: by group why its commits are not known.
    `pending`: groups whose commit at the source a transaction was about to replace that was open.
    `target_fences`: fences that stand at the target. `fence_refusal`: why the source could not be fenced as chosen,
    None: it could, or no fence is chosen.
    `shut_out_problem`: why no rule can keep the mirror out of the target, None: one can, as far as is known.
    `downtimes`: by kind for how many seconds applications had nowhere to write when this was done last, where it was.
    `step_seconds`: by kind what each step took then. `reverse_flows`: by flow its opposite one. `extras`: by topic how
    many offsets lie at the target alone, in front of what came there since applications left it. `objectives`: what
    the configuration allows.
    """

    source: SeenCluster
    target: SeenCluster
    flows: Sequence[SeenFlow]
    directions: Directions
    direction_id: str | None
    permissions: str
    places: Sequence[Row]
    untold: Mapping[str, str]
    active: frozenset[str]
    hindered: Mapping[Place, Outcome]
    losses: Sequence[Row]
    commits: CommitsRead
    downtimes: Mapping[ChangeoverKind, float]
    step_seconds: Mapping[ChangeoverKind, Mapping[str, float]] = field(default_factory=dict)
    reverse_flows: Mapping[str, str]
    extras: Mapping[str, int]
    objectives: Objectives
    pending: frozenset[str] = frozenset()
    target_fences: Sequence[Fence]
    fence_refusal: str | None
    shut_out_problem: str | None
    cut: str
    not_copied: Sequence[NotCopied] = ()
    elsewhere: frozenset[tuple[str, str]] = frozenset()
    records_group: Callable[[str], bool] = every_group
