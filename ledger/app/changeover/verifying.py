"""`verify`: what an apply has made, or people by an exported plan, is read back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.adapters.delta.ledger_state import DeltaLedgerState
from ledger.adapters.delta.snapshots import open_ledger
from ledger.adapters.kafka.admin.cluster_admin import KafkaAdmin
from ledger.app import answers
from ledger.app.acts.fencing import fence_parts
from ledger.app.acts.hand_over import Asked as AskedHandOver
from ledger.app.acts.hand_over import show_hand_over
from ledger.app.acts.shut_out import administered
from ledger.app.changeover.exporting import lacking_rules
from ledger.app.changeover.planning import read_applies, read_plan
from ledger.app.changeover.sheets import RecordedSheets, exported_sheets, sheets_of_operation
from ledger.app.changeover.written import mirrors_at
from ledger.app.wiring import cluster_admin, operator_operations
from ledger.config.mirror import MirrorConfig
from ledger.domain.changeover.applies import Apply
from ledger.domain.changeover.plans import FenceChoice, Plan
from ledger.domain.changeover.steps import StepName
from ledger.domain.facts import TopicPartition
from ledger.domain.hand_over.receipts import Purpose
from ledger.domain.operations.content import OperationContent
from ledger.domain.operations.group_offsets import CommitResult, OffsetsSetResult
from ledger.domain.operations.promotion.changeovers import Sheet
from ledger.domain.operations.promotion.shut_outs import EpochMarker
from ledger.domain.words.count_words import counted
from ledger.errors import UsageError
from ledger.operations.changeover.verifying import (
    Check,
    CheckStatus,
    GroupPlace,
    ThereNow,
    asked,
    audit_checks,
    cut_checks,
    direction_checks,
    fence_checks,
    fences_of_topics,
    group_checks,
    group_places,
    hand_over_checks,
    late_write_checks,
    left_out_checks,
    operation_checks,
    said,
    shut_checks,
    shut_out_checks,
)
from ledger.operations.changeover.written_behind import Behind
from ledger.operations.directions import Pair
from ledger.operations.fencing.measures import SETTING
from ledger.operations.groups.outcomes import Outcome
from ledger.ports.clusters import live_cluster


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is read back; `of` None: of a plan that was exported."""

    config: MirrorConfig
    plan: Plan
    of: Apply | None
    state: DeltaLedgerState
    source: KafkaAdmin
    target: KafkaAdmin

    def has(self, step: StepName) -> bool:
        """Whether a step is to be there by now."""
        return step in self.plan.steps and (self.of is None or step in self.of.done)

    @property
    def pair(self) -> Pair:
        topics = tuple(sorted({one.topic for one in self.plan.topics}))
        return Pair(self.plan.to_cluster, self.plan.from_cluster, topics)


def verify_changeover(config: MirrorConfig, name: str) -> list[Check]:
    """By the id of an operation, or of a plan that was exported; of the latter what is proved is recorded.

    Raises `UsageError` for an id of neither. Clusters that do not answer are no error: what they would say is unknown.
    """
    applies = read_applies(answers.snapshot(config, None))
    of = applies.by_id.get(name)
    plan = read_plan(config, name if of is None else of.plan_id, is_begun=of is not None).plan
    sheets = exported_sheets(config, name) if of is None else sheets_of_operation(config, of.operation_id)
    if sheets is None:
        raise UsageError(
            f"plan {name} was not exported: there is nothing to compare with. Of a plan that was carried out by apply "
            "give the operation id (mirror-ledger plan list); nothing was done"
        )
    state = DeltaLedgerState(open_ledger(config.ledger.path))
    with (
        cluster_admin(config, plan.from_cluster) as source,
        cluster_admin(config, plan.to_cluster) as target,
    ):
        reading = _Reading(config, plan, of, state, source, target)
        checks = [] if of is None else operation_checks(of, plan)
        for check, ask in _checks(reading).items():
            checks += asked(check, plan.to_cluster, ask)
        return checks + asked("group", plan.to_cluster, lambda: _groups(reading, sheets))


def _checks(reading: _Reading) -> Mapping[str, Callable[[], Sequence[Check]]]:
    found: dict[str, Callable[[], Sequence[Check]]] = {
        "cluster": lambda: _clusters(reading),
        "promoted": lambda: direction_checks(reading.state.directions(), reading.plan),
    }
    if reading.has(StepName.SHUT_OUT):
        found["shut_out"] = lambda: _shut_out(reading)
    if reading.has(StepName.FENCE):
        found["fence"] = lambda: _fences(reading)
    if reading.has(StepName.FENCE) and reading.of is not None:
        found["late_write"] = lambda: _late_writes(reading)
    if reading.has(StepName.CUT) and reading.of is not None:
        operation_id = reading.of.operation_id
        found["cut"] = lambda: cut_checks(reading.state.cut(operation_id), reading.plan)
    if reading.has(StepName.HAND_OVER):
        found["hand_over"] = lambda: _hand_over(reading)
    found["audit"] = lambda: _audits(reading)
    return found


def _clusters(reading: _Reading) -> list[Check]:
    """The cluster that applications came to is the one that the plan is about."""
    plan, live = reading.plan, live_cluster(reading.target)
    reading.state.identities().require(plan.to_cluster, live)
    is_same = live.cluster_id == plan.to_cluster_id
    return [said("cluster", plan.to_cluster, is_same, f"Kafka cluster id {live.cluster_id}")]


def _shut_out(reading: _Reading) -> list[Check]:
    shut_outs = reading.state.shut_outs()
    cluster_id = reading.target.cluster_id()
    topics, former = reading.pair.topics or (), reading.plan.from_cluster
    with administered(reading.config, reading.plan.to_cluster) as admin:

        def remembers(marker: EpochMarker) -> bool:
            at = TopicPartition(marker.topic, marker.topic_id, marker.partition)
            return admin.producer_epochs([at], marker.producer_id).get(at, 0) >= marker.producer_epoch

        rules = admin.topic_acls() if shut_outs.rules(cluster_id, topics, former) else frozenset()
        return shut_out_checks(shut_outs, cluster_id, former, topics, ThereNow(rules, remembers))


def _is_open_again(reading: _Reading) -> bool:
    """A topic that takes no batch is opened for the flow back."""
    return reading.plan.choices.fence is FenceChoice.SHUT and reading.has(StepName.REVERSE)


def _fences(reading: _Reading) -> list[Check]:
    plan = reading.plan
    if plan.choices.fence is FenceChoice.NONE:
        return [said("fence", plan.from_cluster, None, f"the plan has none: {plan.choices.unproven}")]
    if reading.of is None:
        return _fences_by_hand(reading)
    if _is_open_again(reading):
        words = "the topics were shut, and opened again for the flow back"
        return [said("fence", plan.from_cluster, True, words)]
    standing = [one.fence for one in reading.state.fences().at(plan.from_cluster)]
    fences = fences_of_topics(standing, plan.topics)
    with fence_parts(reading.config, plan.from_cluster, reading.state, lambda _words: None) as parts:
        checks = fence_checks(fences, parts.control)
    return checks + (_allowed_since(reading) if plan.choices.fence is FenceChoice.CLOSED else [])


def _allowed_since(reading: _Reading) -> list[Check]:
    """Rules that let somebody write who was allowed nothing when the topics were closed."""
    lacking, refusals = lacking_rules(reading.config, reading.plan, reading.state)
    open_ones = [said("fence", one.name, False, f"{one.principal} may write by now") for one in lacking]
    return open_ones + [said("fence", reading.plan.from_cluster, None, words) for words in refusals]


def _fences_by_hand(reading: _Reading) -> list[Check]:
    """Nothing is recorded of them: what is there now is compared with what would close the topics."""
    plan, alias = reading.plan, reading.plan.from_cluster
    if plan.choices.fence is FenceChoice.HOOK:
        return [said("fence", alias, None, "no cluster tells what a hook has stopped")]
    topics = sorted({one.source_topic for one in plan.topics})
    if plan.choices.fence is FenceChoice.SHUT:
        own = reading.source.configurations(topics)
        return shut_checks({topic: own.get(topic, {}).get(SETTING) for topic in topics})
    lacking, refusals = lacking_rules(reading.config, plan, reading.state)
    if refusals:
        return [said("fence", alias, None, words) for words in refusals]
    missing = [said("fence", one.name, False, f"{one.principal} is not denied") for one in lacking]
    return missing or [said("fence", alias, True, "every principal that a rule allows to write is denied")]


def _late_writes(reading: _Reading) -> list[Check]:
    """Behind the ends that the fence was proved at; without a fence behind those that were drained."""
    plan = reading.plan
    ends = _fenced_ends(reading) or _drained_ends(reading)
    unknown = sorted({one.source_topic for one in plan.topics} - {one.topic for one in ends})
    checks = [said("late_write", topic, None, "nobody knows where it ended") for topic in unknown]
    if not ends:
        return checks
    return checks + late_write_checks(reading.source, ends, mirrors_at(reading.state, plan.from_cluster_id))


def _fenced_ends(reading: _Reading) -> list[Behind]:
    assert reading.of is not None, "of an apply"
    receipt = reading.of.done[StepName.FENCE].read_back
    return [
        Behind(fence["topic"], fence["topic_id"], one["partition"], one["end"])
        for fence in receipt.get("fences", ())
        for one in fence["partitions"]
    ]


def _drained_ends(reading: _Reading) -> list[Behind]:
    assert reading.of is not None, "of an apply"
    drained = reading.of.done.get(StepName.DRAIN)
    ids = {one.source_topic: one.source_topic_id for one in reading.plan.topics}
    found = []
    for name, end in ({} if drained is None else drained.read_back["high_watermarks"]).items():
        topic, _, partition = name.rpartition("-")
        found.append(Behind(topic, ids[topic], int(partition), end))
    return found


def _hand_over(reading: _Reading) -> list[Check]:
    wanted = AskedHandOver(reading.pair, Purpose.APPLICATIONS)
    return hand_over_checks(show_hand_over(reading.config, wanted))


def _audits(reading: _Reading) -> list[Check]:
    found = answers.audit_rows(answers.snapshot(reading.config, None))
    return audit_checks(found.keys(), {name: rows for name, rows in found.items() if rows})


# Groups -----------------------------------------------------------------------------------------


def _groups(reading: _Reading, sheets: RecordedSheets) -> list[Check]:
    if not reading.has(StepName.MOVE_GROUPS):
        return []
    if reading.of is not None and not sheets.by_group:
        groups = reading.of.done[StepName.MOVE_GROUPS].read_back.get("groups", 0)
        words = f"{counted(groups, 'group')} was to move"
        return [said("group", reading.plan.to_cluster, None if groups else True, words)]
    places = group_places(reading.target, list(sheets.by_group.values()))
    if reading.of is not None:
        return group_checks(places)
    recorded = _record_moves(reading, sheets, places)
    checks = [*group_checks(places), *left_out_checks(reading.plan.to_cluster, sheets.left_out)]
    return [
        one if one.subject in recorded or one.status is not CheckStatus.OK else _beyond(one) for one in checks
    ]


def _beyond(check: Check) -> Check:
    """Nobody saw it where the plan put it."""
    return replace(
        check, words=f"{check.words}; its move is not recorded: it had read on before it was verified"
    )


def _record_moves(
    reading: _Reading, sheets: RecordedSheets, places: Mapping[str, list[GroupPlace] | None]
) -> frozenset[str]:
    """Of groups that stand exactly where an exported plan put them, once; returns all groups whose move is recorded."""
    proved = {
        group: sheets.by_group[group]
        for group, found in places.items()
        if found and group not in sheets.moved and all(one.is_exact for one in found)
    }
    contents: list[OperationContent] = []
    for group, sheet in sorted(proved.items()):
        contents += [sheet.intended, OffsetsSetResult(group=group, results=_results(sheet))]
    if contents:
        operator_operations(reading.config).record_parts(
            contents,
            operation_id=sheets.operation_id,
            flow=None,
            reason=f"verified export of plan {reading.plan.plan_id}",
        )
    return sheets.moved | proved.keys()


def _results(sheet: Sheet) -> tuple[CommitResult, ...]:
    return tuple(
        CommitResult(
            source_topic=one.source_topic,
            source_partition=one.source_partition,
            topic=one.topic,
            partition=one.partition,
            former=one.former,
            to=one.to,
            result=Outcome.SET.value,
        )
        for one in sheet.commits
    )
