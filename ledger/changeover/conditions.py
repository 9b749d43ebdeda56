"""What the steps of an apply rest on, until applications start: one list, read before each of them and by `verify`.

What was true when a step was carried out may be so no longer when the next one begins: an apply may have waited for
hours, been suspended, or be continued by somebody else.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ledger.changeover.checks import (
    Check,
    CheckStatus,
    direction_checks,
    fence_checks,
    fences_of_topics,
    group_checks,
    group_places,
    late_write_checks,
    left_checks,
    said,
    shut_out_checks,
    topic_checks,
)
from ledger.changeover.groups import last_sheets
from ledger.changeover.measures import SETTING
from ledger.changeover.plans import (
    Apply,
    ChangeoverKind,
    FenceChoice,
    StepName,
    apply_command,
    undo_command,
)
from ledger.changeover.step_context import PlanContext
from ledger.changeover.waiting import Behind, mirrors_at
from ledger.errors import ClusterUnavailableError, StepRefusedError
from ledger.facts.acls import closing
from ledger.facts.cut_offsets import Cut, CutSide
from ledger.facts.fences import EpochMarker
from ledger.facts.permissions import Permission
from ledger.facts.syncs import TopicPartition
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import live_cluster
from ledger.kafka.leaders import KafkaFencing
from ledger.topics.following import is_fence

_ORDER = tuple(StepName)
_STARTED = _ORDER.index(StepName.START_APPLICATIONS)


@dataclass(frozen=True, slots=True)
class Reading(PlanContext):
    """What is read, of which operation; `of` None: of an apply that begins.

    `done`: steps that have been carried out by now. `are_started`: whether applications may be at work at the target.
    """

    of: Apply | None
    done: frozenset[StepName]
    are_started: bool

    @property
    def at_source(self) -> KafkaFencing:
        """As who reads rules reaches it."""
        return self.context.administered(self.plan.from_cluster)

    @property
    def at_target(self) -> KafkaFencing:
        """The same."""
        return self.context.administered(self.plan.to_cluster)

    @property
    def cut(self) -> Cut | None:
        """None: there is none yet, or never was one."""
        if self.context.why.operation_id is None or not self.has(StepName.CUT):
            return None
        return self.state.cut(self.operation_id)

    def has(self, step: StepName) -> bool:
        """Whether a step is to be there by now."""
        return step in self.plan.steps and step in self.done


@dataclass(frozen=True, slots=True)
class Condition:
    """What has to be so before each of `steps`, once `after` has been carried out (None: from the beginning).

    `is_of_source`: asked of the former source. `to_type`: what is to be typed where it is not so (`_to_type`),
    `to_type_late`: once applications may have been started, None: the same.
    `until`: the last step before which `verify` asks it; None: it is to be so for good.
    """

    name: str
    after: StepName | None
    steps: frozenset[StepName]
    ask: Callable[[Reading], Sequence[Check]]
    to_type: str
    to_type_late: str | None = None
    is_of_source: bool = False
    until: StepName | None = None

    def is_asked(self, reading: Reading) -> bool:
        """Whether it is to be so by now."""
        return self.after is None or reading.has(self.after)


def conditions(reading: Reading) -> Iterator[tuple[str, str, Callable[[], Sequence[Check]]]]:
    """What is to be so now, by name, the cluster that it is about, and what is asked for it."""
    for one in CONDITIONS:
        is_over = one.until is not None and reading.has(one.until)
        if one.is_asked(reading) and not is_over:
            cluster = reading.plan.from_cluster if one.is_of_source else reading.plan.to_cluster
            yield one.name, cluster, partial(one.ask, reading)


def require_conditions(reading: Reading, step: StepName) -> list[str]:
    """Raise `StepRefusedError` where something is not so that a step rests on; it names that, and what to type.

    Of a source that is given up nothing is asked. Returns what nobody could say, of one that does not answer: an apply
    that has copied all of it needs no more of it.
    """
    away: str | None = None
    unknown = []
    for one in CONDITIONS:
        if step not in one.steps or not one.is_asked(reading):
            continue
        if one.is_of_source and not reading.plan.kind.is_planned:
            continue
        if one.is_of_source and away is not None:
            unknown.append(one.name)
            continue
        try:
            checks = one.ask(reading)
        except ClusterUnavailableError as error:
            if not one.is_of_source:
                raise
            away = str(error)
            unknown.append(one.name)
            continue
        if bad := [check for check in checks if check.status is CheckStatus.NOT_OK]:
            words = "; ".join(f"{check.subject}: {check.words}" for check in bad)
            to_type = one.to_type_late if one.to_type_late and reading.are_started else one.to_type
            raise StepRefusedError(f"{words}. Step {step} did nothing. {_to_type(to_type, reading)}")
    return [f"not asked for {', '.join(unknown)}: {away}"] if unknown else []


# What is typed then -----------------------------------------------------------------------------

_CORRECT_ADDRESSES = "Correct bootstrap_servers, then continue: {apply}"
_UNDO_AND_PLAN = (
    "This plan cannot be carried out any more: undo what was done before ({undo}), then plan again"
)
_UNDO_LATE = (
    "Nothing copies what {source} has alone. Undo it, and keep producers away: {undo}; then plan again"
)
_DEMOTED = (
    "{target} is not promoted over {source} any more: somebody has demoted it. Undo what is left: {undo}; then plan "
    "again"
)
_SHUT_OUT_AGAIN = (
    "Shut it out again: mirror-ledger promote {target} --over {source} --shut-out --reason WHY{target_topics}; then "
    "continue: {apply}"
)
_UNFENCE = (
    "Lift it: mirror-ledger unfence {target} --reason WHY{target_topics}; then continue: {apply}. Where no fence is "
    "recorded: mirror-ledger fence {target} --how shut --accept producers_stopped --reason WHY{target_topics} first"
)
_FENCE_AGAIN = (
    "If nobody is to write there, fence it again: mirror-ledger fence {source} --reason WHY --how {how}{source_topics}"
    "; then continue: {apply}. If applications work there, undo: {undo}"
)
_STOP_GROUPS = (
    "Stop their consumers at {source}, and let a recorder read them (mirror-ledger record {source} --once); then "
    "continue, which sets them again: {apply}"
)
_STOP_GROUPS_LATE = "Stop their consumers at {source}; then continue: {apply}"
_SET_GROUPS_LATE = (
    "Applications may be at work at {target}, so groups are not set again. What is lacking is set, while the group has "
    "no members there, by mirror-ledger offsets set --from {source} --to {target} --group GROUP; then continue: {apply}"
)
_SET_GROUPS = (
    "Continue, which sets what is lacking: {apply}. What stands beyond its place is set lower by mirror-ledger offsets "
    "set --from {source} --to {target} --group GROUP --accept newer"
)


def _to_type(words: str, reading: Reading) -> str:
    """With topics of the plan by name: it may have left others out."""
    plan = reading.plan
    return words.format(
        apply=apply_command(plan.plan_id),
        undo=undo_command(reading.operation_id),
        source=plan.from_cluster,
        target=plan.to_cluster,
        source_topics="".join(f" --topic {one}" for one in plan.source_names),
        target_topics="".join(f" --topic {one}" for one in plan.target_names),
        how="shut --accept producers_stopped" if plan.choices.fence is FenceChoice.SHUT else "closed",
    )


# What is asked ----------------------------------------------------------------------------------


def _accepted(reading: Reading, checks: Sequence[Check], risk: str) -> list[Check]:
    """The same; what nobody knows is accepted where the plan took this risk upon itself by its name."""
    taken = [one for one in reading.plan.choices.all_accepted if one.partition("=")[0] == risk]
    if not taken or reading.of is None:
        return [*checks]
    said_by = f"--accept {taken[0]}, by {reading.of.operator}: {reading.of.reason or 'no reason was given'}"
    return [
        replace(one, status=CheckStatus.ACCEPTED, words=f"{one.words}; {said_by}")
        if one.status is CheckStatus.UNKNOWN
        else one
        for one in checks
    ]


def _cluster(reading: Reading, admin: KafkaAdmin, cluster_id: str) -> list[Check]:
    """The cluster that answers is the one that the plan is about."""
    live = live_cluster(admin)
    if admin.alias != reading.plan.to_cluster or reading.plan.kind is not ChangeoverKind.PROTECT:
        reading.state.identities().require(admin.alias, live)
    is_same = live.cluster_id == cluster_id
    words = f"Kafka cluster id {live.cluster_id}"
    if not is_same:
        words = f"another cluster answers: its {words}, the plan is about {cluster_id}"
    return [said("cluster", admin.alias, is_same, words)]


def _shut_out(reading: Reading) -> list[Check]:
    shut_outs = reading.state.shut_outs()
    cluster_id, admin = reading.target.cluster_id(), reading.at_target
    topics, former = reading.plan.target_names, reading.plan.from_cluster

    def remembers(marker: EpochMarker) -> bool:
        at = TopicPartition(marker.topic, marker.topic_id, marker.partition)
        return admin.producer_epochs([at], marker.producer_id).get(at, 0) >= marker.producer_epoch

    rules = admin.topic_acls() if shut_outs.rules(cluster_id, topics, former) else frozenset()
    checks = shut_out_checks(shut_outs, cluster_id, former, topics, rules, remembers)
    return _accepted(reading, checks, "mirror_not_shut_out")


def is_open_again(reading: Reading) -> bool:
    """A topic that takes no batch is opened for the flow back."""
    return reading.plan.choices.fence is FenceChoice.SHUT and reading.has(StepName.REVERSE)


def _fences(reading: Reading) -> list[Check]:
    plan = reading.plan
    if plan.choices.fence is FenceChoice.NONE:
        return _accepted(reading, [said("fence", plan.from_cluster, None, "the plan has none")], "unproven")
    if is_open_again(reading):
        words = "the topics were shut, and opened again for the flow back"
        return [said("fence", plan.from_cluster, True, words)]
    active = [one.fence for one in reading.state.fences().at(plan.from_cluster)]
    checks = fence_checks(fences_of_topics(active, plan.topics), reading.at_source)
    checks = _accepted(reading, checks, "unproven")
    return checks + (_allowed_since(reading) if plan.choices.fence is FenceChoice.CLOSED else [])


def _allowed_since(reading: Reading) -> list[Check]:
    """Rules that let somebody write who was allowed nothing when the topics were closed."""
    lacking, refusals = _lacking_now(reading)
    open_ones = [said("fence", one.resource_name, False, f"{one.entity} may write by now") for one in lacking]
    return open_ones + [said("fence", reading.plan.from_cluster, None, words) for words in refusals]


def _lacking_now(reading: Reading) -> tuple[Sequence[Permission], Sequence[str]]:
    """What is lacking to close the topics of the plan; why that would not, or nobody knows, is said instead."""
    plan, control = reading.plan, reading.at_source
    authorizations = control.authorizations()
    if authorizations is None:
        return (), (f"{plan.from_cluster} has no authorizer: no rule stops anybody there",)
    mirror = reading.context.config.cluster(plan.from_cluster).mirror_principal
    acls = control.topic_acls()
    if reading.has(StepName.REVERSE):  # the mirror has to write once it copies back
        acls = frozenset(one for one in acls if one.entity != mirror)
    confirmed = plan.choices.confirmed_super_users
    found = closing(plan.source_names, acls, authorizations, mirror=mirror, confirmed=confirmed)
    return sorted({rule for rules in found.rules.values() for rule in rules} - acls), found.refusals


def _late_writes(reading: Reading) -> list[Check]:
    """Behind the ends of the cut; before there is one behind those that the fence was proved at, or were drained."""
    plan = reading.plan
    ends = _cut_ends(reading) or _fenced_ends(reading) or _drained_ends(reading)
    unknown = sorted({*plan.source_names} - {one.topic for one in ends})
    checks = [said("late_write", topic, None, "nobody knows where it ended") for topic in unknown]
    if not ends:
        return checks
    return checks + late_write_checks(reading.source, ends, mirrors_at(reading.state, plan.from_cluster_id))


def _cut_ends(reading: Reading) -> list[Behind]:
    cut = reading.cut
    if not reading.plan.kind.is_planned or cut is None:
        return []
    topics = reading.plan.source_names
    return [
        Behind(one.topic, one.topic_id, one.partition, one.high_watermark)
        for one in cut.offsets
        if one.side is CutSide.SOURCE
        and one.is_live
        and one.high_watermark is not None
        and one.topic in topics
    ]


def _fenced_ends(reading: Reading) -> list[Behind]:
    receipt = {} if reading.of is None else reading.of.read_back(StepName.FENCE)
    return [
        Behind(fence["topic"], fence["topic_id"], one["partition"], one["end"])
        for fence in receipt.get("fences", ())
        for one in fence["partitions"]
    ]


def _drained_ends(reading: Reading) -> list[Behind]:
    drained = {} if reading.of is None else reading.of.read_back(StepName.DRAIN)
    ids = {one.source_topic: one.source_topic_id for one in reading.plan.topics}
    found = []
    for name, end in drained.get("high_watermarks", {}).items():
        topic, _, partition = name.rpartition("-")
        found.append(Behind(topic, ids[topic], int(partition), end))
    return found


def _opened(reading: Reading) -> list[Check]:
    """Nothing keeps applications from writing where they come to."""
    names, cluster = reading.plan.target_names, reading.plan.to_cluster
    own, fenced = reading.at_target.configurations(names), reading.state.fences().at(cluster)
    shut = [one for one in names if is_fence(SETTING, own.get(one, {}).get(SETTING))]
    words = dict.fromkeys(shut, "it takes no batch")
    words |= {one.fence.topic: f"it is fenced ({one.fence.how})" for one in fenced}
    return [said("open", one, one not in words, words.get(one, "applications may write")) for one in names]


def _left(reading: Reading) -> list[Check]:
    """No group that has moved is at work at the former source, or has read on there since."""
    sheets = last_sheets(reading.context, reading.operation_id)
    return left_checks(reading.source, list(sheets.values()), are_started=reading.are_started)


def _groups(reading: Reading) -> list[Check]:
    """Every group stands where it was set, and what it reads is there."""
    sheets = last_sheets(reading.context, reading.operation_id)
    places = group_places(reading.target, list(sheets.values()), reading.cut)
    checks = group_checks(places, are_started=reading.are_started)
    if reading.are_started:
        return checks
    # Nobody is to have read there yet: what stands beyond its place would pass what the group has not read.
    return [
        said(one.check, one.subject, False, one.words) if one.status is CheckStatus.UNKNOWN else one
        for one in checks
    ]


def _until_started(after: StepName) -> frozenset[StepName]:
    return frozenset(_ORDER[_ORDER.index(after) + 1 : _STARTED + 1])


_ALL = frozenset(_ORDER[: _STARTED + 1])
_BEFORE_START = frozenset(_ORDER[:_STARTED])
_START = frozenset({StepName.START_APPLICATIONS})
CONDITIONS = (
    Condition(
        "cluster",
        None,
        _ALL,
        lambda at: _cluster(at, at.target, at.plan.to_cluster_id),
        _CORRECT_ADDRESSES,
    ),
    Condition(
        "source",
        None,
        _ALL,
        lambda at: _cluster(at, at.source, at.plan.from_cluster_id),
        _CORRECT_ADDRESSES,
        is_of_source=True,
    ),
    Condition(
        "topics",
        None,
        _BEFORE_START,
        lambda at: topic_checks(
            at.target, {one.topic: one.topic_id for one in at.plan.topics if one.topic_id}
        ),
        _UNDO_AND_PLAN,
        until=StepName.START_APPLICATIONS,
    ),
    Condition(
        "source_topics",
        None,
        _BEFORE_START,
        lambda at: topic_checks(at.source, {one.source_topic: one.source_topic_id for one in at.plan.topics}),
        _UNDO_AND_PLAN,
        is_of_source=True,
        until=StepName.START_APPLICATIONS,
    ),
    Condition(
        "promoted",
        StepName.PROMOTE,
        _until_started(StepName.PROMOTE),
        lambda at: direction_checks(at.state.directions(), at.plan),
        _DEMOTED,
    ),
    Condition("shut_out", StepName.SHUT_OUT, _until_started(StepName.SHUT_OUT), _shut_out, _SHUT_OUT_AGAIN),
    Condition(
        "late_write",
        StepName.FENCE,
        _until_started(StepName.CUT),
        _late_writes,
        _UNDO_LATE,
        is_of_source=True,
    ),
    Condition(
        "fence", StepName.FENCE, _until_started(StepName.DRAIN), _fences, _FENCE_AGAIN, is_of_source=True
    ),
    Condition("open", StepName.HAND_OVER, _START, _opened, _UNFENCE, until=StepName.START_APPLICATIONS),
    Condition(
        "left",
        StepName.MOVE_GROUPS,
        _START,
        _left,
        _STOP_GROUPS,
        _STOP_GROUPS_LATE,
        is_of_source=True,
        until=StepName.START_APPLICATIONS,
    ),
    Condition(
        "group",
        StepName.MOVE_GROUPS,
        _START,
        _groups,
        _SET_GROUPS,
        _SET_GROUPS_LATE,
        until=StepName.START_APPLICATIONS,
    ),
)
"""In the order in which they are asked: what a plan is about first, then where its topics and groups stand. That groups
are at rest still before they move is asked by `move_groups` itself, which may wait for it (`GroupsAtRest`)."""
