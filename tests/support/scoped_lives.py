"""Lives of a pair of clusters in memory in which topics are copied for a while only, and what a plan makes of them.

Beside the topics of `changing_pairs.py` there are some whose mirroring is given up before applications change sides:
their flow selects them no longer, is disabled, or is taken out of the configuration.
"""

import json
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from ledger.changeover.planning import Planned
from ledger.changeover.plans import ChangeoverKind, Choices, steps_of
from ledger.changeover.seeing import make_plan, record_plan
from ledger.config.values import FlowConfig
from ledger.context import Context
from ledger.facts.direction import Direction
from ledger.facts.operations import DriverStarting, Why
from tests.simulation.drivers import FlowDrivers
from tests.simulation.kafka.administered import AdministeredCluster, topic_rule
from tests.support.changing_pairs import (
    BILLING,
    FORWARD,
    HOOKS,
    REVERSE,
    SHOP,
    TOPICS,
    ChangingPair,
    value_of,
)
from tests.support.operation_logs import operators


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
