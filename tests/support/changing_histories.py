"""Histories of clusters in memory whose direction changes: there and back, meddled with, with topics given up."""

import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto

from ledger.changeover.planning import Planned
from ledger.changeover.plans import Apply, ChangeoverKind, Choices, StepName, steps_of
from ledger.changeover.seeing import make_plan, read_applies, record_plan
from ledger.config.values import FlowConfig
from ledger.context import Context
from ledger.errors import MirrorLedgerError
from ledger.facts.groups import NewCommit
from ledger.facts.operations import DriverStarting, Why
from ledger.facts.ways import Direction
from tests.simulation.drivers import FlowDrivers
from tests.simulation.kafka.administered import MIRROR, AdministeredCluster, topic_rule
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.opened import OpenedSnapshot
from tests.support.changing_pairs import (
    BILLING,
    FORWARD,
    GROUPS,
    HOOKS,
    REVERSE,
    SHOP,
    SWITCHOVER,
    TOPICS,
    ChangingPair,
    Consumer,
    value_of,
)
from tests.support.ledgers import operators
from tests.support.operator_processes import ProcessEnded, Strikes, never

# -- There and back, at work all the time ----------------------------------------------------------

PLACES = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]


class TravellingPair(ChangingPair):
    """Both drivers are supervised, the one of the way back from the first change of sides on."""

    def __init__(self) -> None:
        super().__init__()
        self.home = self.east
        self._is_reverse_begun = False

    def other(self, cluster: AdministeredCluster) -> AdministeredCluster:
        return self.west if cluster is self.east else self.east

    def planned_way(self) -> str:
        """A plan to leave the cluster where applications are."""
        target = self.other(self.home)
        self.outside.hooks["start-applications"] = self._starts_at(target)
        return self.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER, way=(self.home.alias, target.alias))

    def switch(self, *, before: Strikes = never, behind: Strikes = never) -> str:
        """By a plan alone, and as many processes as it takes; returns the operation."""
        operation = self.apply_by_many(self.planned_way(), before=before, behind=behind)
        if not self._is_reverse_begun:
            self._is_reverse_begun = True
            self.let_mirror_write_at_east()
            self.reverse.from_cut = MemoryLedgerState(self.ledger).cut(operation)
            self.schedule.spawn("reverse", self.reverse.supervise)
        return operation

    def _starts_at(self, cluster: AdministeredCluster) -> Callable[[], None]:
        def start() -> None:
            if self.home is not cluster:
                self.home = cluster
                for place in PLACES:
                    self.until(lambda at=place: cluster.lets_write(SHOP, *at), "rules are carried")  # type: ignore[misc]
            if not self._consumers:
                self.consume(cluster, dict.fromkeys(GROUPS, 3))

        return start

    def applies(self) -> list[Apply]:
        return list(read_applies(OpenedSnapshot(self.ledger)).by_id.values())  # type: ignore[arg-type]

    def start_again(self) -> None:
        """Groups where applications are, after a plan was given up."""
        self.consume(self.home, dict.fromkeys(GROUPS, 3))

    def work(self, records: int = 9) -> None:
        """Producers write where applications are, and groups read on, a little behind."""
        for number in range(records):
            assert self.produce(*PLACES[number % len(PLACES)], at=self.home)
            if number % 2:
                for consumer in self._consumers:
                    consumer.poll(2)
            self.schedule.wait(0.2)

    def come_together(self) -> None:
        """Groups read to the end, and both clusters have all."""
        for consumer in self._consumers:
            consumer.poll()
        self.until(lambda: self.values(self.east) == self.values(self.west), "all is copied")

    def require_once_each(self) -> None:
        """Every record that a cluster took lies once at each, and every group has processed it once."""
        east, west = self.values(self.east), self.values(self.west)
        assert east == west
        every = Counter((*place, value) for place, values in east.items() for value in values)
        assert sum(every.values()) == self._written
        assert set(every.values()) == {1}
        for group in GROUPS:
            assert Counter(self.processed[group]) == every, group

    def told(self, operation: str) -> dict[str, str]:
        """By step what its receipt says."""
        rows = [row for row in self.rows("operations", operation) if row["kind"] == "step_done"]
        return {content["step"]: content["words"] for content in (json.loads(row["content"]) for row in rows)}

    def end(self) -> None:
        self.reverse.end()
        super().end()


# -- Somebody meddles between two processes --------------------------------------------------------
# The oracle is what lies in the logs and what consumers have processed: applications are not started where records are
# at
# the former source alone, or a group would pass some.

_ENDS = (
    *(StepName.DRAIN, StepName.STOP_GROUPS, StepName.PROMOTE, StepName.SHUT_OUT, StepName.CUT),
    *(StepName.HAND_OVER, StepName.MOVE_GROUPS, StepName.AUDIT, StepName.START_APPLICATIONS),
)
"""Steps at whose beginning a process ends."""


def _write_at_east(pair: ChangingPair) -> None:
    pair.unfence_east()
    for partition in (0, 1):
        pair.produce("orders", partition)
    pair.schedule.wait(2.0)


def _partition_added(pair: ChangingPair) -> None:
    pair.east.add_partitions("users", total=2)
    pair.append_past_all_rules(pair.east, "users", 1)


def _somebody_may_write(pair: ChangingPair) -> None:
    pair.east.change_acls([topic_rule("User:other", "write", "orders")])
    pair.schedule.wait(1.0)


def _mirror_let_in(pair: ChangingPair) -> None:
    pair.west.change_acls(
        [one for one in pair.west.acls if one.entity == MIRROR and one.operation == "write"], remove=True
    )
    pair.west.change_acls([topic_rule(MIRROR, "write", "*")])
    pair.schedule.wait(1.0)


def _reads_on_at_east(pair: ChangingPair) -> None:
    consumer = Consumer(pair.east, "audit", pair.processed["audit"])
    consumer.join()
    consumer.poll(1)
    pair.east.leave("audit")


def _reads_on_recorded(pair: ChangingPair) -> None:
    _reads_on_at_east(pair)
    pair.recorders.record_all()


def _set_to_the_end(pair: ChangingPair) -> None:
    end = pair.west.log("orders", 0).high_watermark
    pair.west.set_commits("audit", [NewCommit("orders", 0, end, None)])


def _retention_at_west(pair: ChangingPair) -> None:
    pair.west.log("orders", 0).delete_before(3)


def _away(pair: ChangingPair) -> None:
    pair.east.available = False


MISCHIEF: Mapping[str, Callable[[ChangingPair], None]] = {
    "nothing": lambda _pair: None,
    "written at east": _write_at_east,
    "unfenced": ChangingPair.unfence_east,
    "written past all rules": ChangingPair.write_at_east_past_all_rules,
    "partition added": _partition_added,
    "somebody may write": _somebody_may_write,
    "mirror let in": _mirror_let_in,
    "demoted": ChangingPair.demote,
    "read on at east": _reads_on_at_east,
    "read on, and recorded": _reads_on_recorded,
    "member at east": lambda pair: Consumer(pair.east, "billing", pair.processed["billing"]).join(),
    "set to the end at west": _set_to_the_end,
    "commits deleted at west": lambda pair: pair.west.committed.clear(),
    "retention at west": _retention_at_west,
    "created again at west": lambda pair: pair.west.recreate_topic("users"),
    "east away": _away,
}


def meddle(seed: str) -> str:
    """Play one history; returns what came of it, in words. Raises `AssertionError` where something is lost by it."""
    rng = random.Random(seed)
    step, mischief = rng.choice(_ENDS), rng.choice(sorted(MISCHIEF))
    pair = ChangingPair()
    plan = pair.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER)
    with suppress(ProcessEnded):
        pair.apply(
            plan,
            pair.outside.process(before=lambda write: write == f"ledger: apply operations step_begun {step}"),
        )
    at_west = pair.values(pair.west)
    MISCHIEF[mischief](pair)
    commits = dict(pair.west.committed)
    refused = ""
    try:
        pair.apply(plan)
    except MirrorLedgerError as error:
        refused = str(error)
    applied = pair.applied(plan)
    assert applied is not None
    what = f"{mischief} before {step}: {refused or 'done'}"
    if StepName.START_APPLICATIONS in applied.done:
        harm = _harm(pair, at_west)
        assert not harm, f"{'; '.join(harm)}, and applications were started: {what}"
    else:
        assert refused, what
        if StepName.MOVE_GROUPS not in applied.begun:
            assert pair.west.committed == commits, f"groups were set: {what}"
    pair.east.available = True
    pair.end()
    return what


Values = Mapping[tuple[str, int], list[str]]


def _harm(pair: ChangingPair, before: Values) -> list[str]:
    """What lies at east and was never at west, and what of west's log a group has never processed."""
    at_west = pair.values(pair.west)
    ever = {(*at, value) for values in (before, at_west) for at, found in values.items() for value in found}
    at_east = {
        (name, partition, value_of(record))
        for name, topic in pair.east.topic_by_name.items()
        for partition, log in enumerate(topic.logs)
        for record in log.readable()
    }
    alone = sorted(at_east - ever)
    found = [f"{len(alone)} at east alone"] if alone else []
    for group in GROUPS:
        skipped = {(*at, value) for at, values in at_west.items() for value in values} - {
            *pair.processed[group]
        }
        found += [f"{group} has skipped {len(skipped)}"] if skipped else []
    return found


# -- Topics that are copied for a while only -------------------------------------------------------
# Beside the topics of `changing_pairs.py` there are some whose mirroring is given up before applications change sides:
# their flow selects them no longer, is disabled, or is taken out of the configuration.


class Fate(Enum):
    """What becomes of the mirroring of a topic before the plan."""

    COPIED = auto()  # it goes on
    DESELECTED = auto()  # the forward flow selects it no longer
    DISABLED = auto()  # its own flow is
    REMOVED = auto()  # its own flow is in no configuration any more
    NEVER = auto()  # nothing has ever copied it

    @property
    def is_given_up(self) -> bool:
        return self in (Fate.DESELECTED, Fate.DISABLED, Fate.REMOVED)


@dataclass
class ScopedLife:
    """`fates`: by topic beside `TOPICS`. `written`: how many records each has got behind the last copy."""

    fates: Mapping[str, Fate]
    written: dict[str, int]
    pair: ChangingPair

    @classmethod
    def of(cls, fates: Mapping[str, Fate], *, read: int = 2, behind: int = 5) -> "ScopedLife":
        """Three records of each topic are copied, billing has read some; then `behind` records follow."""
        life = cls(fates, {}, ChangingPair())
        life._mirror_for_a_while()
        life._read(read)
        life._give_up()
        for topic in fates:
            life.written[topic] = behind
            life.write(topic, behind)
        life.pair.schedule.wait(4.0)
        life.pair.recorders.record_all()
        return life

    @classmethod
    def of_seed(cls, seed: int) -> "ScopedLife":
        rng = random.Random(seed)
        fates = {name: rng.choice(list(Fate)) for name in ("audits", "refunds")}
        if not any(fate.is_given_up for fate in fates.values()):
            fates["refunds"] = rng.choice([fate for fate in Fate if fate.is_given_up])
        return cls.of(fates, read=rng.randint(0, 3), behind=rng.randint(0, 6))

    @property
    def given_up(self) -> tuple[str, ...]:
        return tuple(sorted(topic for topic, fate in self.fates.items() if fate.is_given_up))

    def write(self, topic: str, count: int) -> None:
        for _ in range(count):
            assert self.pair.produce(topic, 0)

    def _mirror_for_a_while(self) -> None:
        pair = self.pair
        for topic in self.fates:
            pair.east.create_topic(topic, partitions=1, replication_factor=1, configuration={})
            pair.east.change_acls([topic_rule(SHOP, "write", topic), topic_rule(BILLING, "read", topic)])
        pair.schedule.wait(1.0)
        own = [topic for topic, fate in self.fates.items() if fate in (Fate.DISABLED, Fate.REMOVED)]
        self._side = self._side_flow(own) if own else None
        self._select(topic for topic, fate in self.fates.items() if fate in (Fate.COPIED, Fate.DESELECTED))
        for topic in self.fates:
            self.write(topic, 3)
        pair.schedule.wait(6.0)

    def _side_flow(self, topics: Collection[str]) -> FlowDrivers:
        pair = self.pair
        changed = {"name": "side", "topics": tuple(topics), "opposite": "side-back"}
        flow = FlowConfig(**{**pair.config.flow(FORWARD).model_dump(), **changed})
        drivers = FlowDrivers(pair.forward._world, flow)  # a flow of the same world
        drivers.host = "mirrors:3:3:"
        operators(pair.ledger, pair.schedule).record(DriverStarting(drivers.host), flow="side", reason=None)
        pair.schedule.spawn("supervisor of side", drivers.supervise)
        return drivers

    def _select(self, topics: Iterable[str]) -> None:
        """Beside `TOPICS`, by both directions, as of the next start of the driver."""
        names = (*TOPICS, *sorted(topics))
        pair = self.pair
        flows = {
            name: flow.model_copy(update={"topics": names} if name in (FORWARD, REVERSE) else {})
            for name, flow in pair.config.flows.items()
        }
        pair.config = pair.config.model_copy(update={"flows": flows})
        pair.forward.flow, pair.reverse.flow = flows[FORWARD], flows[REVERSE]
        pair.forward.kill_driver()
        pair.schedule.wait(3.0)

    def _read(self, count: int) -> None:
        east = self.pair.east
        places = {(topic, 0): count for topic, fate in self.fates.items() if fate is not Fate.NEVER}
        if not count or not places:
            return
        reader = east.join("reader")
        others = {(topic, at): 1 for topic, partitions in TOPICS.items() for at in range(partitions)}
        assert east.commit_as_member("reader", reader, {**places, **others})
        east.leave("reader")
        self.pair.schedule.wait(3.0)

    def _give_up(self) -> None:
        self._select(topic for topic, fate in self.fates.items() if fate is Fate.COPIED)
        if self._side is None:
            return
        self._side.end()
        self.pair.schedule.wait(6.0)
        disabled = [topic for topic, fate in self.fates.items() if fate is Fate.DISABLED]
        if disabled:
            side = self._side.flow.model_copy(update={"enabled": False})
            config = self.pair.config
            self.pair.config = config.model_copy(
                update={"flows": {**config.flows, "side": side, "side-back": _back(side)}}
            )

    # -- plans -----------------------------------------------------------------------------------

    def made(self, kind: ChangeoverKind, choices: Choices) -> Planned:
        """A plan, recorded, whatever stands against it."""
        pair = self.pair
        with pair.outside.seen_by(pair.outside.process()):
            hooks = {step: HOOKS[step] for step in steps_of(kind, is_promoted=True) if step in HOOKS}
            context = Context(pair.config, Why("a drill"))
            found = make_plan(context, kind, Direction("east", "west"), choices, hooks)
            record_plan(context, found)
        return found

    def applied(self, kind: ChangeoverKind, choices: Choices) -> str:
        """Carried out without what is given up; returns the operation id."""
        made = self.made(kind, replace(choices, left_out=self.given_up))
        assert not made.blockers, made.blockers
        return self.pair.apply(made.plan.plan_id)

    # -- what came of it -------------------------------------------------------------------------

    def values(self, cluster: AdministeredCluster, topic: str) -> list[list[str]]:
        if topic not in cluster.topic_by_name:
            return []
        logs = cluster.topic_by_name[topic].logs
        return [[value_of(one) for one in cluster.log(topic, at).readable()] for at in range(len(logs))]

    def promoted(self, operation_id: str) -> set[str]:
        """Topics that the operation's rows name."""
        rows = self.pair.rows("operations", operation_id)
        told = [json.loads(row["content"]) for row in rows if row["kind"] == "promoted"]
        return {topic for content in told for topic in content["topics"]}

    def set_at_west(self) -> set[str]:
        """Topics of west on which anybody has committed, or is set to."""
        return {topic for _, topic, _ in self.pair.west.committed}

    def counted(self, operation_id: str) -> set[str]:
        """Topics of east whose ends the operation has read for its report."""
        rows = self.pair.rows("cut_offsets", operation_id)
        return {row["topic"] for row in rows if row["cluster"] == "east"}

    def require_nothing_unguarded(self, operation_id: str) -> None:
        """What is set or promoted is closed to producers of east, is at west with all its records, and was counted."""
        pair = self.pair
        changed = self.set_at_west() | self.promoted(operation_id)
        assert changed >= set(TOPICS), changed
        for topic in changed:
            assert not pair.east.lets_write(SHOP, topic, 0), f"{topic} of east takes records"
            for here, there in zip(self.values(pair.east, topic), self.values(pair.west, topic), strict=True):
                assert there[: len(here)] == here, f"{topic} was not drained"
        assert changed <= self.counted(operation_id)


def _back(side: FlowConfig) -> FlowConfig:
    return FlowConfig(
        **{**side.model_dump(), "name": "side-back", "source": "west", "target": "east", "opposite": "side"}
    )
