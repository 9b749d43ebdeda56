"""A pair of clusters in memory whose direction changes, with all that is at work there."""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ledger.changeover import pairs
from ledger.changeover.applying import apply_plan
from ledger.changeover.approving import approve_plan
from ledger.changeover.directions import change_direction
from ledger.changeover.holding import fence_and_hold
from ledger.changeover.measures import AskedFence
from ledger.changeover.plans import (
    Apply,
    ApplyState,
    ChangeoverKind,
    Choices,
    FenceChoice,
    StepName,
    steps_of,
)
from ledger.changeover.receipts import StepReports, Waits
from ledger.changeover.seeing import make_plan, read_applies, record_plan
from ledger.changeover.undoing import UndoResult, undo_apply
from ledger.config.mirror import LedgerConfig, MirrorConfig
from ledger.config.values import ClusterConfig, FlowConfig, Policy
from ledger.context import Context
from ledger.facts.direction import Demoted
from ledger.facts.fences import FenceHow
from ledger.facts.operations import DriverStarting, OperationKind, Why
from ledger.facts.ways import Direction
from ledger.kafka.batches import Record
from ledger.mirror import run
from ledger.store import restoring
from ledger.store.ledger_copy import LedgerCopy, Restoration
from ledger.topics.naming import NamingKind
from tests.simulation.crash_points import CrashPlan
from tests.simulation.drivers import FlowDrivers, World
from tests.simulation.kafka.administered import CLUSTER, MIRROR, AdministeredCluster, rule, topic_rule
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.kafka.stored_batches import application_batch, content
from tests.simulation.ledger.fact_log import MemoryLedgerState, RestoringFactLog
from tests.simulation.ledger.opened import OpenedLedger, OpenedSnapshot
from tests.simulation.ledger.tables import MemoryLedger
from tests.simulation.recorders import Recorders
from tests.simulation.weather import StormyWeather
from tests.support.hand_overs import DEFAULTS
from tests.support.ledgers import operators
from tests.support.operator_processes import (
    PRINCIPAL,
    OperatorProcess,
    Outside,
    ProcessEnded,
    Strikes,
    never,
)

FORWARD, REVERSE = "east-to-west", "west-to-east"
THERE, BACK_FROM_THERE = "west-to-north", "north-to-west"
"""To a third cluster that has all that west has, and back."""
AROUND, HOME_FROM_THERE = "east-to-north", "north-to-east"
"""The same without west."""
TOPICS: Mapping[str, int] = {"orders": 2, "users": 1}
SHOP, BILLING, ADMIN = "User:shop", "User:billing", "User:admin"
GROUPS = ("billing", "audit")
HOOKS = {
    StepName.STOP_PRODUCERS: "stop-producers",
    StepName.STOP_GROUPS: "stop-groups",
    StepName.START_APPLICATIONS: "start-applications",
    StepName.MIRROR_BACK: "stop-mirror",
    StepName.CATCH_UP: "mirror-back",
}
SWITCHOVER = Choices(watch_seconds=1.0, progress_seconds=2.0)
FAILOVER = replace(SWITCHOVER, fence=FenceChoice.NONE, unproven="it burns")
_SETTINGS = {
    "orders": {"message.timestamp.type": "LogAppendTime", "retention.ms": "900"},
    "users": {"compression.type": "producer", "retention.ms": "800"},
}
ADMINISTERS = ("alter_configs", "describe_configs", "create", "delete")
_ADMIN_OF_CLUSTER = [rule(ADMIN, operation, "cluster", CLUSTER) for operation in ("alter", "describe")]
_MIRROR_OF_GROUPS = [rule(MIRROR, operation, "group", "*") for operation in ("read", "delete")]


@dataclass
class Consumer:
    """A member of a group at one cluster: reads what is committed from where its group is, as it may."""

    cluster: AdministeredCluster
    group: str
    processed: list[tuple[str, int, str]]
    generation: int = 0
    positions: dict[tuple[str, int], int] = field(default_factory=dict)

    def join(self) -> None:
        self.generation = self.cluster.join(self.group)
        self.positions = {
            (topic, number): self.cluster.committed.get((self.group, topic, number), 0)
            for topic, partitions in TOPICS.items()
            for number in range(partitions)
        }

    def poll(self, at_most: int = 1_000) -> None:
        """Process records in their order, and commit behind the last."""
        for (topic, number), position in self.positions.items():
            assert self.cluster.allows(BILLING, "read", "topic", topic), "its rules were not carried"
            found = [one for one in self.cluster.log(topic, number).readable() if one.offset >= position]
            for record in found[:at_most]:
                self.processed.append((topic, number, value_of(record)))
                self.positions[topic, number] = record.offset + 1
        assert self.cluster.commit_as_member(self.group, self.generation, self.positions)


class ChangingPair:
    """`orders` and `users` of east are mirrored to west under the same names, and `more_topics` once they are there.

    `is_chain`: what comes to west goes on to `north`. `goes_on`: flows continue where a source has lost its end.
    """

    def __init__(
        self, more_topics: Sequence[str] = (), *, is_chain: bool = False, goes_on: bool = False
    ) -> None:
        rng = random.Random(1)
        self.schedule = Schedule()
        self.ledger = MemoryLedger()
        self.east, self.west, self.north = (
            AdministeredCluster(
                alias, self.schedule, default_settings={**DEFAULTS, "max.message.bytes": "1048576"}
            )
            for alias in ("east", "west", "north")
        )
        policy = Policy.CONTINUE if goes_on else Policy.STOP
        self.config = _config((*TOPICS, *more_topics), is_chain=is_chain, on_source_truncated=policy)
        self.refused = 0
        self._written = 0
        self.taken: list[tuple[str, int, str]] = []
        """What applications wrote and a cluster acknowledged, in this order."""
        self.destination = self.west
        self._producers_at = self.east
        self.processed: dict[str, list[tuple[str, int, str]]] = {group: [] for group in GROUPS}
        self._consumers: list[Consumer] = []
        self.outside = Outside(
            self.schedule,
            {
                one.alias: one
                for one in (self.east, self.west, self.north)
                if one.alias in self.config.clusters
            },
            self.ledger,
            {
                "stop-producers": lambda: None,
                "stop-groups": self.stop_groups,
                "start-applications": self.start_applications,
                "stop-mirror": self.drivers_end,
                "mirror-back": self.start_reverse,
            },
        )
        weather = StormyWeather(rng, Counter(), loses=False)
        weather.is_over = True
        world = World(
            rng,
            self.schedule,
            self.outside.clusters,
            self.ledger,
            self.schedule,
            weather,
            CrashPlan.none(),
            Counter[str](),
            lambda: self.schedule,
        )
        self._world = world
        self.drivers = {name: FlowDrivers(world, flow) for name, flow in self.config.flows.items()}
        for number, drivers in enumerate(self.drivers.values(), start=1):
            drivers.host = f"mirrors:{number}:{number}:"
        self.forward, self.reverse = self.drivers[FORWARD], self.drivers[REVERSE]
        self.recorders = Recorders(rng, self.schedule, self.outside.clusters.values(), self.ledger)
        self._begin()

    def _begin(self) -> None:
        self._allow()
        for name, partitions in TOPICS.items():
            self.east.create_topic(
                name, partitions=partitions, replication_factor=1, configuration=dict(_SETTINGS[name])
            )
        operators(self.ledger, self.schedule).record(
            DriverStarting(self.forward.host), flow=FORWARD, reason=None
        )
        self.schedule.spawn("supervisor", self.forward.supervise)
        if THERE in self.drivers:
            started = DriverStarting(self.drivers[THERE].host)
            operators(self.ledger, self.schedule).record(started, flow=THERE, reason=None)
            self.schedule.spawn("supervisor", self.drivers[THERE].supervise)
        for number in range(12):
            self.produce(*_place(number))
        self.consume(self.east, {"billing": 1_000, "audit": 2})
        self.recorders.start()
        self.until(lambda: self.is_copied, "all is copied")
        self.recorders.record_all()

    def _allow(self) -> None:
        both = [topic_rule(ADMIN, operation, "*") for operation in ADMINISTERS]
        applications = [
            *(topic_rule(SHOP, "write", topic) for topic in TOPICS),
            *(topic_rule(BILLING, "read", topic) for topic in TOPICS),
        ]
        others = [*_ADMIN_OF_CLUSTER, *_MIRROR_OF_GROUPS]
        groups = [rule(BILLING, "read", "group", group) for group in GROUPS]
        self.east.begin_with([*both, *applications, topic_rule(MIRROR, "read", "*")], [*others, *groups])
        for cluster in (self.west, self.north):
            reading = [topic_rule(MIRROR, "read", "*")] if THERE in self.drivers else []
            cluster.begin_with([*both, topic_rule(MIRROR, "write", "*"), *reading], others)

    # -- applications ----------------------------------------------------------------------------

    def produce(self, topic: str, partition: int, at: AdministeredCluster | None = None) -> bool:
        """One record of the shop; whether the cluster took it."""
        value = f"{(at or self.east).alias}-{self._written}"
        is_taken = self.put(at or self.east, (topic, partition), b"k", value.encode())
        self._written += is_taken
        self.refused += not is_taken
        return is_taken

    def put(self, at: AdministeredCluster, place: tuple[str, int], key: bytes, value: bytes | None) -> bool:
        """A record of a key of one byte, None: its tombstone; whether the cluster took it."""
        batch = application_batch([content(key, value)], [self.schedule.now_ms()])
        is_taken = at.write_as(SHOP, *place, batch)
        if is_taken:
            self.taken.append((*place, (value or b"").decode()))
        return is_taken

    def produce_at_east_later(self) -> None:
        """Producers that nobody has told to stop try again and again, from when east is fenced."""

        def attempt() -> None:
            if self.east.available and not self.east.lets_write(SHOP, "orders", 0):
                self.produce("orders", 0)
            if not self.is_over:
                self.schedule.after(0.3, attempt)

        self.schedule.after(0.3, attempt)

    is_over = False

    def stop_groups(self) -> None:
        for one in self._consumers:
            one.cluster.leave(one.group)
        self._consumers.clear()

    def start_applications(self) -> None:
        """Where they arrive: groups read on where they are, and producers write; again does nothing more."""
        there = self.destination
        if self._producers_at is not there:
            self._producers_at = there
            for number in range(3):
                topic, partition = _place(number)
                self.until(lambda at=(topic, partition): there.lets_write(SHOP, *at), "rules are carried")  # type: ignore[misc]
                assert self.produce(topic, partition, at=there)
        if not self._consumers:
            self.consume(there, dict.fromkeys(GROUPS, 1_000))

    def drivers_end(self) -> None:
        """Whoever supervises them starts none any more."""
        for drivers in self.drivers.values():
            drivers.end()
            self.until(lambda those=drivers: those.are_all_done, "they end")  # type: ignore[misc]
        self._is_reverse_started = False

    def start_reverse(self) -> None:
        """Its driver, once, by its supervisor."""
        if not self._is_reverse_started:
            self._is_reverse_started = True
            self.let_mirror_write_at_east()
            for one in self._consumers if self.do_consumers_read else ():
                one.poll()
            self.schedule.spawn("supervisor", self.reverse.supervise)

    _is_reverse_started = False
    do_consumers_read = True

    def consume(self, cluster: AdministeredCluster, at_most: Mapping[str, int]) -> None:
        for group, number in at_most.items():
            consumer = Consumer(cluster, group, self.processed[group])
            consumer.join()
            consumer.poll(number)
            self._consumers.append(consumer)

    def write_at_east_past_all_rules(self) -> None:
        """A record that no rule has stopped, and time for the forward driver to find it."""
        self.append_past_all_rules(self.east, "users", 0)
        self.schedule.wait(2.0)

    def append_past_all_rules(self, cluster: AdministeredCluster, topic: str, partition: int) -> None:
        batch = application_batch([content(b"k", b"late")], [self.schedule.now_ms()])
        cluster.log(topic, partition).append(batch, now_ms=self.schedule.now_ms())

    # -- disasters -------------------------------------------------------------------------------

    def lose_east(self, *, with_driver: bool) -> None:
        """East is gone, and its consumers with it; its recorder finds that out."""
        if with_driver:
            self._lose_driver_with_a_tail()
        self.east.available = False
        self.stop_groups()
        self._producers_at = self.east
        self.schedule.wait(3.0)

    def lose_driver(self) -> None:
        """The driver alone, with a tail; east answers, and nobody writes or reads there any more."""
        self._lose_driver_with_a_tail()
        self.stop_groups()
        self.schedule.wait(3.0)

    def _lose_driver_with_a_tail(self) -> None:
        """Its last records are at west, and nobody has recorded them."""
        at_west = self.west.log("orders", 0)
        copied = len(at_west.readable()) + 2
        for _ in range(2):
            assert self.produce("orders", 0)
        deadline = self.schedule.monotonic() + 30.0
        while len(at_west.readable()) < copied:
            assert self.schedule.monotonic() < deadline, "the tail is copied"
            self.schedule.wait(0.005)
        assert not self.is_copied, "the driver has recorded it already"
        self.forward.end_at_once()

    def return_of_east(self, extras: int, lost: Mapping[tuple[str, int], int] | None = None) -> None:
        """It answers again, with records that were never copied, and a driver is started for it.

        `lost`: by topic and partition so many records at its end are not there any more.
        """
        for place, records in (lost or {}).items():
            log = self.east.log(*place)
            log.lose_end(log.readable()[-records].offset)
        self.east.available = True
        for number in range(extras):
            assert self.produce(*_place(number))
        self.schedule.spawn("supervisor", self.forward.supervise)
        self.schedule.wait(4.0)

    def lose_ledger(self, copied: Mapping[str, int]) -> None:
        """The ledger's host is lost, with driver and recorders; a copy becomes the ledger, by the program's own steps.

        `copied`: how many appends to each table the copy has.
        """
        self.forward.end_at_once()
        self.recorders.is_over = True
        self.schedule.wait(3.0)
        self.ledger.go_back(copied)
        then = OpenedSnapshot(self.ledger)
        at_ms = then.last_recorded_at_ms()
        copy = LedgerCopy(then.cut.ledger_id, "memory", then.cut.token, at_ms)
        log = RestoringFactLog(self.ledger, self.schedule)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(restoring, "DeltaLedger", lambda _path: OpenedLedger(self.ledger))
            restoring._raise_epochs("memory", log, restoring.EPOCHS_APART, "elsewhere:1:1:")  # type: ignore[arg-type]
            made = Restoration("restored", restoring.EPOCHS_APART)
            restoring._record("memory", log, copy, made, Why("a fire"), "ann")  # type: ignore[arg-type]

    def go_on_with_restored(self) -> None:
        """A driver and recorders begin, as `run` begins them on a ledger that was restored."""
        self._world.noted.known = None
        state = MemoryLedgerState(self.ledger)
        restored_by = state.restored_by()
        assert restored_by is not None
        with self.outside.seen_by(self.outside.process()):
            run._shut_out_former_drivers(self.config, self.config.flow(FORWARD), state, restored_by)  # type: ignore[arg-type]
        self.recorders = Recorders(
            self._world.rng, self.schedule, self.outside.clusters.values(), self.ledger
        )
        self.recorders.start()
        self.forward.host = "mirrors:9:9:"
        operators(self.ledger, self.schedule).record(
            DriverStarting(self.forward.host), flow=FORWARD, reason=None
        )
        self.schedule.spawn("supervisor", self.forward.supervise)
        self.until(lambda: self.is_copied, "all is copied")
        self.recorders.record_all()

    # -- operators -------------------------------------------------------------------------------

    def plan(
        self,
        kind: ChangeoverKind,
        choices: Choices,
        process: OperatorProcess | None = None,
        *,
        way: tuple[str, str] = ("east", "west"),
        hooks: Mapping[StepName, str] = HOOKS,
    ) -> str:
        """The id of a plan that nothing stands against, recorded."""
        with self.outside.seen_by(process or self.outside.process()):
            own = steps_of(kind, is_promoted=True, stays=choices.stays)
            hooks = {step: command for step, command in hooks.items() if step in own}
            context = Context(self.config, Why("a drill"))
            made = make_plan(context, kind, Direction(*way), choices, hooks)
            assert not made.blockers, made.blockers
            record_plan(context, made)
        return made.plan.plan_id

    def approve(self, plan_id: str, key: str) -> None:
        """By the person who has this private key."""
        with self.outside.seen_by(self.outside.process()):
            _, operation_id = approve_plan(Context(self.config, Why("read")), plan_id, key)
        assert operation_id is not None

    def blockers(self, way: tuple[str, str], choices: Choices = SWITCHOVER) -> dict[str, str]:
        """What stands against a switchover, by code."""
        with self.outside.seen_by(self.outside.process()):
            made = make_plan(Context(self.config), ChangeoverKind.SWITCHOVER, Direction(*way), choices, {})
        return {str(one.code): one.words for one in made.blockers}

    def failback_blockers(self, choices: Choices, *, away: str = "west") -> dict[str, str]:
        """What stands against going back to east, by code."""
        with self.outside.seen_by(self.outside.process()):
            way = Direction(away, "east")
            made = make_plan(Context(self.config), ChangeoverKind.FAILBACK, way, choices, {})
        return {str(one.code): one.words for one in made.blockers}

    def apply(
        self,
        plan_id: str,
        process: OperatorProcess | None = None,
        *,
        waits: Callable[[StepName, str], None] | None = None,
    ) -> str:
        """By a process that begins now; returns the operation id. Raises `ProcessEnded` where it ended before."""
        reports = _SILENT if waits is None else replace(_SILENT, waits=waits)
        with self.outside.seen_by(process or self.outside.process()):
            return apply_plan(Context(self.config, Why("a drill")), plan_id, _nobody, reports)

    def applied(self, plan_id: str) -> Apply | None:
        """How far the plan was carried out last, as the ledger says; None: not at all."""
        found = read_applies(OpenedSnapshot(self.ledger)).of_plan(plan_id)  # type: ignore[arg-type]
        return found[-1] if found else None

    def apply_by_many(self, plan_id: str, *, before: Strikes = never, behind: Strikes = never) -> str:
        """By one process after another, until it is done; returns the operation id."""
        while True:
            with suppress(ProcessEnded):
                self.apply(plan_id, self.outside.process(before, behind))
            found = self.applied(plan_id)
            if found is not None and found.state is ApplyState.DONE:
                return found.operation_id

    def undo_by_many(self, operation_id: str, *, before: Strikes = never, behind: Strikes = never) -> None:
        """The same of undoing."""
        while True:
            with suppress(ProcessEnded):
                self.undo(operation_id, self.outside.process(before, behind))
                return

    def undo(self, operation_id: str, process: OperatorProcess | None = None) -> UndoResult | None:
        with self.outside.seen_by(process or self.outside.process()):
            return undo_apply(Context(self.config, Why("no")), operation_id, _SILENT)

    def demote(self) -> None:
        """By itself, as nobody should while a plan is carried out."""
        with self.outside.seen_by(self.outside.process()):
            way = pairs.Pair("west", "east", None)
            change_direction(Context(self.config, Why("back")), Demoted, way)

    def close_east(self) -> None:
        """As is done when it is back from a failover: nobody reads there, and nothing is deleted."""
        asked = AskedFence(
            cluster="east",
            topics=tuple(TOPICS),
            how=FenceHow.CLOSED,
            reading=True,
            confirmed_super_users=SWITCHOVER.confirmed_super_users,
        )
        with self.outside.seen_by(self.outside.process()):
            fence_and_hold(Context(self.config, Why("it is back")), asked, lambda _line: None)

    def unfence_east(self) -> None:
        """By Kafka's own tools, as people do who give a change up, and tell nobody."""
        denied = [one for one in self.east.acls if one.permission_type == "deny"]
        self.east.change_acls(denied, remove=True)
        self.schedule.wait(1.0)

    def let_mirror_write_at_east(self) -> None:
        """What people do before they start the reverse flow."""
        self.east.change_acls([topic_rule(MIRROR, "write", "*")])
        self.schedule.wait(1.0)

    def let_north_give_back(self) -> None:
        """In the configuration, once applications are at north: a flow that relays has no opposite."""
        there = self.config.flow(THERE).model_copy(update={"relay": False, "opposite": BACK_FROM_THERE})
        turned = {"name": BACK_FROM_THERE, "source": "north", "target": "west", "opposite": THERE}
        back = there.model_copy(update=turned)
        flows = {**self.config.flows, THERE: there, BACK_FROM_THERE: back}
        self.config = self.config.model_copy(update={"flows": flows})
        self.drivers[BACK_FROM_THERE] = FlowDrivers(self._world, back)
        self.drivers[BACK_FROM_THERE].host = "mirrors:4:4:"

    def give_west_up(self) -> None:
        """In the configuration: flows between east and north alone."""
        way = self.config.flow(FORWARD)
        flows = {
            name: way.model_copy(update={"name": name, "source": source, "target": target, "opposite": back})
            for name, source, target, back in (
                (AROUND, "east", "north", HOME_FROM_THERE),
                (HOME_FROM_THERE, "north", "east", AROUND),
            )
        }
        self.config = self.config.model_copy(update={"flows": flows})
        for number, (name, flow) in enumerate(flows.items(), start=5):
            self.drivers[name] = FlowDrivers(self._world, flow)
            self.drivers[name].host = f"mirrors:{number}:{number}:"

    # -- what came of it -------------------------------------------------------------------------

    @property
    def is_copied(self) -> bool:
        """Whether west has all records of east, and the ledger says so."""
        ends = self.east.ends([(name, number) for name, count in TOPICS.items() for number in range(count)])
        reached = {
            (one.source_topic, one.partition): one.position.source_offset
            for one in self.forward.state.positions(FORWARD)
        }
        return all(reached.get(place, 0) >= end.high_watermark for place, end in ends.items())

    def until(self, is_so: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
        deadline = self.schedule.monotonic() + within_s
        while not is_so():
            assert self.schedule.monotonic() < deadline, what
            self.schedule.wait(0.25)

    def values(self, cluster: AdministeredCluster) -> dict[tuple[str, int], list[str]]:
        return {
            (name, number): [value_of(one) for one in cluster.log(name, number).readable()]
            for name, count in TOPICS.items()
            for number in range(count)
        }

    def rows(self, table: str, operation_id: str) -> list[dict[str, Any]]:
        return [row for row in self.ledger.rows(table) if row["operation_id"] == operation_id]

    def end(self) -> None:
        """No driver and no recorder goes on."""
        self.is_over = self.recorders.is_over = True
        self.drivers_end()


def value_of(record: Record) -> str:
    size = record.content[2] // 2
    return record.content[3 : 3 + size].decode()


def _place(number: int) -> tuple[str, int]:
    places = [(name, at) for name, count in TOPICS.items() for at in range(count)]
    return places[number % len(places)]


def _nobody(what: str, _waits: Waits) -> str:
    raise AssertionError(f"a hook does it, and nobody is asked whether {what}")


_SILENT = StepReports(lambda _step: None, lambda _step, _words: None, lambda _step, _words, _is_done: None)


def _config(topics: tuple[str, ...], *, is_chain: bool, on_source_truncated: Policy) -> MirrorConfig:
    clusters = {
        alias: ClusterConfig(
            name=alias,
            bootstrap_servers="memory:0",
            properties={PRINCIPAL: MIRROR},
            mirror_principal=MIRROR,
            admin_properties={PRINCIPAL: ADMIN},
        )
        for alias in (("east", "west", "north") if is_chain else ("east", "west"))
    }
    ways: dict[str, tuple[str, str, str | None]] = {
        FORWARD: ("east", "west", REVERSE),
        REVERSE: ("west", "east", FORWARD),
    }
    if is_chain:
        ways[THERE] = ("west", "north", None)
    flows = {
        name: FlowConfig(
            name=name,
            source=source,
            target=target,
            opposite=opposite,
            relay=name == THERE,
            topics=topics,
            topic_naming=NamingKind.IDENTITY,
            on_source_truncated=on_source_truncated,
            round_seconds=0.5,
            heartbeat_seconds=2.0,
            topic_refresh_seconds=1.0,
        )
        for name, (source, target, opposite) in ways.items()
    }
    return MirrorConfig(file="memory", ledger=LedgerConfig(path="memory"), clusters=clusters, flows=flows)


# -- What a change leaves behind -------------------------------------------------------------------
# So one that was interrupted can be compared with one that was not.

_OF_EACH_ATTEMPT = frozenset(
    {
        *(OperationKind.APPLY_CLAIMED, OperationKind.APPLY_ALIVE, OperationKind.STEP_BEGUN),
        *(OperationKind.STEP_DONE, OperationKind.STEP_FAILED, OperationKind.UNDO_BEGUN),
        *(OperationKind.FENCE, OperationKind.MIRROR_SHUT_OUT),
        *(OperationKind.HANDED_OVER, OperationKind.HAND_OVER_RESULT, OperationKind.HAND_OVER_UNDONE),
        *(OperationKind.OFFSETS_SET, OperationKind.OFFSETS_SET_RESULT, OperationKind.SHEET),
        OperationKind.SETTLED,
    }
)
"""Rows of which there are as many as attempts were made."""
_STAMP = frozenset({"recorded_at_ms", "read_at_ms", "writer", "writer_epoch", "round", "operation_id"})
_OF_THE_LAST_ATTEMPT = {
    "promote": ("is_new",),
    "move_groups": ("partitions",),
    "shut_out": ("flows", "proof"),
    "settle": ("east-to-west",),
}
"""What a receipt says of what was lacking still, and of who was found."""


def at_clusters(pair: ChangingPair) -> dict[str, Any]:
    """Rules, settings, and commits of groups at both clusters."""
    return {
        f"{cluster.alias} {what}": found
        for cluster in (pair.east, pair.west)
        for what, found in (
            ("rules", frozenset(cluster.acls)),
            ("permissions", frozenset(cluster.allowed.others)),
            ("settings", {name: dict(topic.configuration) for name, topic in cluster.topic_by_name.items()}),
            ("commits", dict(cluster.committed)),
        )
    }


def in_ledger(pair: ChangingPair, operation_id: str) -> dict[str, Any]:
    """What an operation has recorded, and what holds by it.

    Of kinds of rows that each attempt appends anew there is no count; what they come to is told beside them.
    """
    state = MemoryLedgerState(pair.ledger)
    rows = pair.rows("operations", operation_id)
    told = [(row["kind"], json.loads(row["content"].replace(operation_id, "ID"))) for row in rows]
    last = {kind: _plain(content) for kind, content in told}
    receipts = {
        content["step"]: _as_ended(content["step"], _plain(content["read_back"]))
        for kind, content in told
        if kind == "step_done"
    }
    return {
        "rows": Counter(kind for kind, _ in told if kind not in _OF_EACH_ATTEMPT),
        "receipts": receipts,
        "ended": last.get("apply_ended"),
        "undone": last.get("undone"),
        "sheets": {
            content["group"]: {(one["topic"], one["partition"], one["to"]) for one in content["commits"]}
            for kind, content in told
            if kind in ("offsets_set", "sheet")
        },
        "settled": [
            (row["source_topic"], row["source_partition"], row["target_start"], row["target_end"])
            for row in pair.ledger.rows("offset_syncs")
            if row["cause"] == "lost_source"
        ],
        "cut": sorted(
            json.dumps({name: value for name, value in row.items() if name not in _STAMP}, sort_keys=True)
            for row in pair.rows("cut_offsets", operation_id)
        ),
        "directions": {
            way: sorted(
                topic for topic, by in state.directions().promotions(*way, list(TOPICS)).items() if by
            )
            for way in (("east", "west"), ("west", "east"))
        },
        "fences": sorted(
            (
                one.fence.topic,
                str(one.fence.how),
                str(one.fence.proof),
                one.fence.denied,
                str(one.fence.former),
            )
            for one in state.fences().at("east")
        ),
        "shut out": state.shut_outs().rules(pair.west.kafka_id, list(TOPICS)),
    }


def _as_ended(step: str, receipt: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in receipt.items() if name not in _OF_THE_LAST_ATTEMPT.get(step, ())}


def _plain(content: Any) -> Any:
    """Without what differs from one time to another: times, durations, cuts, and who it was."""
    if isinstance(content, Mapping):
        return {name: _plain(value) for name, value in content.items() if not _is_of_time(name)}
    return [_plain(one) for one in content] if isinstance(content, list) else content


def _is_of_time(name: str) -> bool:
    return name in ("cut", "operation", "host") or name.endswith(("_ms", "_s")) or "seconds" in name


def came_to(pair: ChangingPair, operation_id: str) -> dict[str, Any]:
    """All of it: at both clusters, in the ledger, and what groups have processed."""
    return {
        **at_clusters(pair),
        **in_ledger(pair, operation_id),
        "processed": {group: sorted(found) for group, found in pair.processed.items()},
        "values": {cluster.alias: pair.values(cluster) for cluster in (pair.east, pair.west)},
    }


def copied_back(pair: ChangingPair, operation_id: str) -> dict[str, Any]:
    """What the reverse flow does from the cut of an operation on: where it begins, and what comes to east."""
    pair.let_mirror_write_at_east()
    pair.reverse.from_cut = MemoryLedgerState(pair.ledger).cut(operation_id)
    pair.reverse.run_a_while(3.0)
    syncs = [row for row in pair.ledger.rows("offset_syncs") if row["flow"] == REVERSE]
    columns = (
        "source_topic",
        "source_partition",
        "kind",
        "cause",
        "source_start",
        "source_end",
        "target_start",
    )
    return {
        "syncs": [
            tuple(row[name] for name in columns)
            for row in sorted(syncs, key=lambda row: (row["source_topic"], row["source_partition"]))
        ],
        "east": pair.values(pair.east),
    }
