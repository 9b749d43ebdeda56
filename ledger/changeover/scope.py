"""What was seen before a plan, and its scope: every topic and group that it is about."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ledger.changeover.deficits import Deficit
from ledger.changeover.extras import Extras
from ledger.changeover.not_followed import NotFollowed
from ledger.changeover.pairs import Pair
from ledger.changeover.plans import ChangeoverKind, Choices, Plan, PlannedTopic
from ledger.config.values import FlowConfig, Objectives, TargetMode
from ledger.facts.direction import Directions
from ledger.facts.fences import Fence
from ledger.facts.groups import Place
from ledger.facts.operations import RecordedStop
from ledger.facts.requests import Pauses
from ledger.facts.roles import RoleVerdict
from ledger.facts.syncs import FlowPosition
from ledger.facts.tables import Row
from ledger.offsets.setting import Outcome
from ledger.offsets.sheets import CommitsRead
from ledger.topics.naming import NamingKind

# Seen ---------------------------------------------------------------------------------------------
# What a plan is made from: the ledger at a cut, and what of both clusters answers.


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


class RepeatCause(StrEnum):
    """Why a group reads records again on the way home; the text is what a plan says of it."""

    READ_BEFORE = (
        "extras that it had read before"  # replicated: it reads them once more where applications are
    )
    NOT_PASSED = "extras that it had not passed"  # at home they lie in front of all that came back
    COMMITTED_LATE = "committed late, or in another order"


@dataclass(slots=True, kw_only=True)
class SeenReturn:
    """A cluster that was lost and is back, before a failback; or one that is to protect the source.

    `topics`: what comes back to it, by the flow that brings it. `not_promoted`: of these the names where applications
    write at neither side alone. `is_open`: what it has alone is decided, and it gets what is written at the other one.
    While it is not: `extras` and `deficits` by partition, `undecided` and `not_returned`: topics of which nobody says
    what becomes of these, `compacted`: topics of which less may become of them; `recreated`: those that are deleted and
    created again, `lost_with_topics`: what else of these is at neither side then, `not_allowed`: which rights to do so
    are lacking, or unknown; `not_fenced`: topics there that are closed to nobody, `fence_refusal`: why the plan's fence
    cannot close them, None: it can; `at_work`: groups with members there whom nothing keeps out; `expiring`: what may
    be deleted there, and when, in words; `repeats`: by group how many records it reads again, by cause (`RepeatCause`),
    as far as that is known before the way back is open. `behind`: offsets that have not come back, and `bytes` which
    they may take, as some batches tell; None: nobody knows.
    """

    topics: tuple[PlannedTopic, ...]
    not_promoted: Sequence[str] = ()
    is_open: bool = False
    extras: Sequence[Extras] = ()
    undecided: Sequence[str] = ()
    deficits: Sequence[Deficit] = ()
    not_returned: Sequence[str] = ()
    compacted: frozenset[str] = frozenset()
    recreated: frozenset[str] = frozenset()
    lost_with_topics: Sequence[Extras] = ()
    not_allowed: Sequence[str] = ()
    not_fenced: Sequence[str] = ()
    at_work: Sequence[str] = ()
    fence_refusal: str | None = None
    expiring: Sequence[str] = ()
    repeats: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    behind: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All of it. `places`: answers of `offset_translation`, `commits`: how old these are; `losses`: of each partition
    what would be lost.

    `not_copied`: topics of the pair that some flow has copied, and that no enabled flow copies. `elsewhere`: pairs of
    topics of which a mirror writes the one at the source (`scope.from_elsewhere`). `records_group`: whether recorders
    of the source keep a group of this name recorded.
    `active`: groups that have members at the target. `hindered`: by group and partition there what else would keep it
    from being set. `unread_groups`: by group why its commits are not known.
    `pending`: groups whose commit at the source a transaction was about to replace that was open.
    `target_fences`: fences that stand at the target. `fence_refusal`: why the source could not be fenced as chosen,
    None: it could, or no fence is chosen; `fence_quiet_s`: for how long it watches that nobody writes, seconds.
    `memberless`: groups at the source that had no members when they were read last: these are watched before they move.
    `used`: a group has a commit at the target that no mirror set.
    `shut_out_problem`: why no rule can keep the mirror out of the target, None: one can, as far as is known.
    `downtimes`: by kind for how many seconds applications had nowhere to write when this was done last, where it was.
    `step_seconds`: by kind what each step took then. `reverse_flows`: by flow its opposite one. `extras`: by topic how
    many offsets lie at the target alone, in front of what came there since applications left it. `objectives`: what
    the configuration allows. `returned`: before a failback, None: before another change of direction. `not_followed`:
    by part what was changed at the source and has not come to the target, None: a plan as of the past does not ask; its
    ages are up to `seen_at_ms`. `transactions`: by topic of the source the ids of producers that write transactions
    there, None: nobody could tell. `static_members`: by group instance ids of its members at the source, None as there.
    """

    source: SeenCluster
    target: SeenCluster
    flows: Sequence[SeenFlow]
    directions: Directions
    direction_id: str | None
    permissions: str
    places: Sequence[Row]
    unread_groups: Mapping[str, str]
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
    fence_quiet_s: float = 0.0
    memberless: frozenset[str] = frozenset()
    used: bool = False
    shut_out_problem: str | None
    cut: str
    not_copied: Sequence[NotCopied] = ()
    elsewhere: frozenset[tuple[str, str]] = frozenset()
    records_group: Callable[[str], bool] = every_group
    returned: SeenReturn | None = None
    not_followed: Sequence[NotFollowed] | None = None
    seen_at_ms: int = 0
    transactions: Mapping[str, frozenset[int]] | None = field(default_factory=dict)
    static_members: Mapping[str, Sequence[str]] | None = field(default_factory=dict)


# Scope --------------------------------------------------------------------------------------------
# What one change of direction is about: one value, from which each of its parts takes what is its own.
#
# Only what is fenced, drained and counted may change sides: topics that a flow copies, of the plan. Groups
# that move leave the former source with all that they read there, so their other places are asked about
# too: they are set where nobody writes at the former source who is not fenced, because it is a mirror that
# writes there. Everything else that the ledger has a map of is copied by nobody any more: what lies beyond
# the map would stay behind in silence.


NOT_COPIED_ANY_MORE = "not_copied_any_more"
"""Status of an answer that has a place, and would be set there though nothing copies to it."""
TopicPair = tuple[str, str]
"""A topic of the former source, and the one at the target where its groups continue."""


def promoted_pair(plan: Plan) -> Pair:
    """What carrying a plan out promotes: its topics; where it is about all of the pair those too that come later, less
    what it leaves out by name."""
    choices = plan.choices
    topics = plan.target_names
    return Pair(
        plan.to_cluster,
        plan.from_cluster,
        topics,
        later=choices.topics is None,
        left_out=choices.left_out,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMap:
    """Topics that a flow of the ledger has paired; clusters by the aliases that it was claimed with.

    `is_copied`: whether an enabled flow copies the one to the other. `is_held`: it may not, because of a direction.
    """

    flow: str
    source: str
    target: str
    source_topic: str
    source_topic_id: str
    topic: str
    topic_id: str
    is_copied: bool
    is_held: bool = False


def from_elsewhere(maps: Collection[KnownMap], source: str, target: str) -> frozenset[TopicPair]:
    """Pairs of which a mirror writes the one at the former source: what comes there from the target, and what both
    clusters get from one origin. No topic that was copied from the source to the target is among them.
    """
    away = {(one.source_topic, one.topic) for one in maps if (one.source, one.target) == (source, target)}
    home = {
        (one.topic, one.source_topic)
        for one in maps
        if (one.source, one.target) == (target, source) and not one.is_held
    }
    origins: dict[tuple[str, str], set[str]] = {}
    for one in maps:
        if one.target == target and one.is_copied:
            origins.setdefault((one.source, one.source_topic), set()).add(one.topic)
    of_one_origin = {
        (one.topic, there)
        for one in maps
        if one.target == source
        for there in origins.get((one.source, one.source_topic), ())
    }
    return frozenset((home | of_one_origin) - away)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """`elsewhere`: as `from_elsewhere` finds them. `records_group`: whether recorders of the former source keep a group
    of this name recorded.
    """

    topics: tuple[PlannedTopic, ...]
    choices: Choices
    elsewhere: Collection[TopicPair] = frozenset()
    records_group: Callable[[str], bool] = field(default=every_group)

    @property
    def source_topics(self) -> frozenset[str]:
        return frozenset(one.source_topic for one in self.topics)

    def losses(self, rows: Iterable[Row]) -> list[Row]:
        """Of rows of a flow and its source topic those that it is about; of topics that no flow has begun with too."""
        mine = {(flow, one.source_topic) for one in self.topics for flow in (one.flow, None)}
        return [row for row in rows if (row["flow"], row["source_topic"]) in mine]

    # -- groups ----------------------------------------------------------------------------------

    def among(self, rows: Sequence[Row]) -> list[Row]:
        """The answers of `offset_translation` that it is about, those of groups that do not move among them.

        One whose place may not be set has none here.
        """
        groups = {row["group_id"] for row in rows} - {None}
        unrecorded = {group for group in groups if not self.records_group(str(group))}
        ways = {(one.source_topic, one.topic) for one in self.topics} | {*self.elsewhere}
        return [
            _judged(row, is_unrecorded=row["group_id"] in unrecorded, ways=ways)
            for row in rows
            if self._is_of_topics(row) and self._is_chosen(row) and not _is_over(row)
        ]

    def moving(self, rows: Sequence[Row]) -> list[Row]:
        """The answers about groups that move, as `who_move` has them."""
        return self.who_move(self.among(rows))

    def who_move(self, found: Sequence[Row]) -> list[Row]:
        """Of answers that it is about: a group of which no topic is copied stays, unless it is chosen by name.

        One that reads other topics too moves, and what is copied nowhere keeps it from being moved whole.
        """
        copied = {row["group_id"] for row in found if row["target_topic"] is not None}
        if self.choices.groups is not None:
            copied |= set(self.choices.groups)
        return [row for row in found if row["group_id"] in copied]

    def read_topics(self, rows: Sequence[Row]) -> frozenset[str]:
        """Topics of the former source whose readers move: none of them may be at work there when they do."""
        read = {str(row["source_topic"]) for row in self.moving(rows) if row["target_topic"] is not None}
        return self.source_topics | read

    def without_place(self, rows: Sequence[Row], moving: Collection[str]) -> dict[str, set[str]]:
        """By topic of the target that is left out, the groups of these that read what is copied to it."""
        found: dict[str, set[str]] = {}
        for row in rows:
            if row["group_id"] in moving and (name := _target_name(row)) in self.choices.left_out:
                found.setdefault(name, set()).add(str(row["group_id"]))
        return found

    def _is_of_topics(self, row: Row) -> bool:
        if _target_name(row) in self.choices.left_out:
            return False
        if self.choices.topics is None:
            return True
        topics = {one.topic for one in self.topics}
        return row["source_topic"] in self.source_topics or row["target_topic"] in topics

    def _is_chosen(self, row: Row) -> bool:
        return self.choices.groups is None or row["group_id"] in self.choices.groups


def _judged(row: Row, *, is_unrecorded: bool, ways: Collection[TopicPair]) -> Row:
    """`ways`: of these a place may be set."""
    if is_unrecorded:
        row = {**row, "is_recorded": False}
    if row["target_topic"] is None or row["target_offset"] is None:
        return row
    if (row["source_topic"], row["target_topic"]) in ways:
        return row
    return {**row, "target_offset": None, "status": NOT_COPIED_ANY_MORE}


def _target_name(row: Row) -> str:
    """What is copied nowhere has the same name there: so people leave it out."""
    return str(row["target_topic"] or row["source_topic"])


def _is_over(row: Row) -> bool:
    """Whether nobody reads there any more, and nothing is copied either: a topic that was deleted, mostly."""
    return row["target_topic"] is None and row.get("absence") is not None
