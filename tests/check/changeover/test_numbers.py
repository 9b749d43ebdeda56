"""Each number of plans, status and receipts beside what was written to the logs, and what groups have read of them.

One story of a pair in memory: a driver dies with its source, which comes back with extras that a group has read in
part; applications go home, move by plan, and lose the other cluster. What is counted is asked of the logs: what one
of them alone holds, and what a group has processed twice.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ledger.answers.flow_status import report_flow
from ledger.answers.status import FlowReport
from ledger.answers.text import render_report
from ledger.changeover.planning import Planned
from ledger.changeover.plans import ChangeoverKind, Choices, StepName, steps_of
from ledger.changeover.seeing import losses_of, make_plan, record_plan
from ledger.changeover.text import ShownPlan, plan_table
from ledger.context import Context
from ledger.facts.operations import ConfigurationChanged, Why
from ledger.facts.ways import Direction
from ledger.kafka.batches import TRANSACTIONAL
from ledger.mirror.progress import config_hash, configuration_of
from ledger.reports.failover import failover_report
from ledger.reports.periods import Period, partition_words
from tests.simulation.kafka.administered import MIRROR, AdministeredCluster, topic_rule
from tests.simulation.kafka.stored_batches import Producer, application_batch, content
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.opened import OpenedSnapshot
from tests.support.changed_ledgers import on_disk
from tests.support.changing_pairs import (
    FAILOVER,
    FORWARD,
    GROUPS,
    HOOKS,
    REVERSE,
    SWITCHOVER,
    ChangingPair,
)
from tests.support.failbacks import BACK, HOME, Placed, placed
from tests.support.histories import examples
from tests.support.ledgers import operators
from tests.support.report_tables import rows_of

pytestmark = pytest.mark.long

THERE = ("east", "west")
EVERYWHERE = [("orders", 0), ("orders", 1), ("users", 0)]
READ_EVERY_S = 3.0
"""Recorders of the pair read more often."""


@dataclass
class Story:
    """`read_twice`: by group how many records it had read again when that was asked last. `lost`: by operation of a
    failover what one cluster alone held then."""

    pair: ChangingPair = field(default_factory=ChangingPair)
    read_twice: Counter[str] = field(default_factory=Counter)
    lost: dict[str, list[Placed]] = field(default_factory=dict)
    operation_id: str = ""

    def __post_init__(self) -> None:
        self.pair.west.change_acls([topic_rule(MIRROR, "create", "*")])
        for name, flow in self.pair.config.flows.items():
            changed = ConfigurationChanged(
                old_hash=None,
                new_hash=config_hash(flow),
                changed=None,
                configuration=configuration_of(flow),
            )
            operators(self.pair.ledger, self.pair.schedule).record(changed, flow=name, reason=None)

    # -- what is so ------------------------------------------------------------------------------

    def alone(self, at: AdministeredCluster) -> list[Placed]:
        """Records that one cluster holds and the other one does not."""
        other = self.pair.west if at is self.pair.east else self.pair.east
        return list((Counter(placed(self.pair, at)) - Counter(placed(self.pair, other))).elements())

    def read_again(self) -> dict[str, int]:
        """By group how many records it has read again since that was asked last."""
        now = {
            group: sum(count - 1 for count in Counter(found).values())
            for group, found in self.pair.processed.items()
        }
        since = {group: now[group] - self.read_twice[group] for group in GROUPS}
        self.read_twice = Counter(now)
        return since

    def oldest_ms(self, at: AdministeredCluster, which: Collection[Placed]) -> int:
        """When the first of these records was written, as its log says."""
        values = {(topic, number, value.encode()) for topic, number, value in which}
        return min(
            record.timestamp
            for topic, number, value in values
            for record in at.log(topic, number).readable()
            if value in record.content
        )

    def transactions(self) -> None:
        """At east in each partition one that is aborted, with two records, and one with one record."""
        for place in EVERYWHERE:
            for is_committed, records in ((False, 2), (True, 1)):
                log, now_ms = self.pair.east.log(*place), self.pair.schedule.now_ms()
                values = [f"txn-{log.end + number}-{is_committed}" for number in range(records)]
                batch = application_batch(
                    [content(b"k", value.encode()) for value in values],
                    [now_ms] * records,
                    attributes=TRANSACTIONAL,
                    producer=Producer(9_000, 0, log.end),
                )
                log.append(batch, now_ms=now_ms)
                log.end_transaction(9_000, 0, commit=is_committed, now_ms=now_ms)
                self.pair.taken += [(*place, value) for value in values if is_committed]

    # -- what is told ----------------------------------------------------------------------------

    def plan(self, kind: ChangeoverKind, choices: Choices, way: tuple[str, str]) -> Planned:
        """Made, and recorded as it is."""
        with self.pair.outside.seen_by(self.pair.outside.process()):
            own = steps_of(kind, is_promoted=True)
            hooks = {step: command for step, command in HOOKS.items() if step in own}
            context = Context(self.pair.config, Why("a drill"))
            made = make_plan(context, kind, Direction(*way), choices, hooks)
            assert not made.blockers, made.blockers
            record_plan(context, made)
        return made

    def receipts(self, made: Planned) -> dict[str, dict[str, Any]]:
        """By step what its receipt has, of the plan carried out now."""
        self.operation_id = self.pair.apply(made.plan.plan_id)
        rows = (
            json.loads(row["content"])
            for row in self.pair.rows("operations", self.operation_id)
            if row["kind"] == "step_done"
        )
        return {row["step"]: row["read_back"] for row in rows}

    def status(self, flow: str) -> FlowReport:
        at = OpenedSnapshot(self.pair.ledger)
        return report_flow(self.pair.config, at, flow, at_ms=self.pair.schedule.now_ms(), is_now=False)  # type: ignore[arg-type]

    def require_loss(self, figures: Mapping[str, Any], lost: Collection[Placed]) -> None:
        """The known part is not more than what is lost, and the upper bound not less: in all, and by partition."""
        assert figures["records_at_least"] <= len(lost) <= figures["records_at_most"]
        by_place = Counter((topic, number) for topic, number, _ in lost)
        told = {(row["source_topic"], row["partition"]): row for row in figures["losses"]}
        assert by_place.keys() <= told.keys()
        for place, row in told.items():
            assert row["at_least"] <= by_place[place] <= row["at_most"], row

    def require_lag(
        self, flow: str, way: tuple[str, str], at: AdministeredCluster, waiting: Collection[Placed]
    ) -> None:
        """Status and the loss that would be have these records as waiting, and since when."""
        lag = self.status(flow).lag
        assert lag.records == len(waiting)
        assert (lag.seconds_bound, lag.measured_at_ms is not None) == ("at_most", True)
        waited_s = ((lag.measured_at_ms or 0) - self.oldest_ms(at, waiting)) / 1000
        assert waited_s <= (lag.seconds or 0.0) <= waited_s + READ_EVERY_S
        now_ms = self.pair.schedule.now_ms()
        rows = losses_of(OpenedSnapshot(self.pair.ledger), Direction(*way), at_ms=now_ms)  # type: ignore[arg-type]
        assert sum(row["records"] for row in rows) == len(waiting)
        assert max(row["seconds"] for row in rows) <= waited_s + READ_EVERY_S


@pytest.mark.parametrize(
    "extras",
    examples(
        check=[("orders=replicate", "users=keep")],
        soak=[("orders=replicate", "users=keep"), ("orders=salvage", "users=replicate")],
    ),
)
def test_each_number_is_what_was_written_and_read(
    extras: tuple[str, str], tmp_path: Path, empty_ledger: Path
) -> None:
    story = Story()
    lose_east(story)
    kept = go_home(story, extras)
    move_there(story, kept)
    lose_west(story)
    story.pair.end()
    require_reports(story, on_disk(story.pair, tmp_path, empty_ledger))


def require_reports(story: Story, period: Period) -> None:
    """What a report says of the loss of each failover, long afterwards."""
    for operation_id, lost in story.lost.items():
        tables = {one.name: rows_of(one) for one in failover_report(period, operation_id).tables}
        by_place = Counter(partition_words(topic, number) for topic, number, _ in lost)
        assert by_place.keys() <= {row["partition"] for row in tables["losses"]}
        for row in tables["losses"]:
            assert row["at least"] <= by_place[row["partition"]] <= row["at most"], row
    assert len(story.lost) == 2


def lose_east(story: Story) -> None:
    """With a driver that has not recorded its last two records, and much that it never copied."""
    pair = story.pair
    story.transactions()
    pair.until(lambda: pair.is_copied, "all is copied")
    mark = len(pair.taken)
    pair.lose_driver()
    tail = pair.taken[mark:]
    story.transactions()
    assert all(pair.produce(*place) for place in EVERYWHERE)
    pair.schedule.wait(READ_EVERY_S)
    assert pair.produce("orders", 1), "nobody sees that any more"
    pair.east.available = False
    pair.schedule.wait(READ_EVERY_S)
    lost = story.alone(pair.east)
    assert not {*tail} & {*lost}, "what the driver had copied is at west"

    made = story.plan(ChangeoverKind.FAILOVER, FAILOVER, THERE)
    story.require_loss(made.forecast, lost)
    receipts = story.receipts(made)
    assert receipts["settle"][FORWARD]["records"] == len(tail)
    loss = receipts["cut"]["loss"]
    story.require_loss(loss, lost)
    assert made.forecast["records_lost"] - loss["records_lost"] == len(tail), "it is not lost"
    assert receipts["move_groups"]["repeated"] == sum(story.read_again().values())
    story.lost[story.operation_id] = lost

    told = story.status(FORWARD)
    assert [(one.is_settled, one.records) for one in told.losses] == [(True, len(tail))]
    assert told.direction.extras_at_most == loss["records_lost"]
    assert "loss " not in render_report(told)


def go_home(story: Story, extras: tuple[str, str]) -> list[Placed]:
    """East is back, a group reads there, and applications go home; returns what stays at east alone by decision."""
    pair = story.pair
    pair.return_of_east(extras=1)
    pair.stop_groups()
    had_read = Counter(pair.processed["audit"])
    pair.consume(pair.east, {"audit": 5})
    pair.stop_groups()
    read = list((Counter(pair.processed["audit"]) - had_read).elements())
    pair.consume(pair.west, dict.fromkeys(GROUPS, 1_000))
    story.read_again()
    pair.destination = pair.east
    alone, to_come = story.alone(pair.east), story.alone(pair.west)
    policies = dict(one.split("=") for one in extras)
    again = [one for one in alone if one in read and policies[one[0]] == "replicate"]
    assert 0 < len({*alone} & {*read}) < len(alone)

    made = story.plan(ChangeoverKind.FAILBACK, replace(HOME, extras=extras), BACK)
    returned = made.forecast["returned"]
    assert {
        (one["topic"], one["partition"]): (one["records"], one["read_by"]) for one in returned["extras"]
    } == {
        place: (len(found), f"audit ({seen})" if (seen := sum(one in read for one in found)) else None)
        for place in EVERYWHERE
        for found in [[one for one in alone if one[:2] == place]]
    }
    assert returned["offsets_to_come"] == made.forecast["records_lost"] == len(to_come)
    assert made.forecast["records_estimated"] == 0
    assert {group: sum(causes.values()) for group, causes in returned["repeats"].items()} == {
        "audit": len(again)
    }
    table = plan_table(ShownPlan(made.plan, made.forecast))
    comes = made.plan.steps.index(StepName.CATCH_UP) + 1
    assert f"{len(to_come)} offsets of west, not copied yet, come back in step {comes}, and" in table
    assert f"were never copied ({len(alone)} records)" in table
    assert "lost" not in table

    receipts = story.receipts(made)
    repeats = receipts["catch_up"]["repeats"]
    assert {group: sum(causes.values()) for group, causes in repeats.items()} == story.read_again()
    assert receipts["move_groups"]["repeated"] == 0
    assert receipts["cut"]["loss"]["records_lost"] == len(story.alone(pair.west)) == 0
    pair.schedule.wait(5.0)
    pair.recorders.record_all()
    kept = [one for one in alone if policies[one[0]] != "replicate"]
    waiting = [one for one in story.alone(pair.east) if one not in kept]
    assert len(waiting) == 3, "applications write at east, and nobody copies it"
    story.require_lag(FORWARD, THERE, pair.east, waiting)
    return kept


def move_there(story: Story, kept: Collection[Placed]) -> None:
    """As planned, once east is mirrored again; the way back begins."""
    pair = story.pair
    pair.schedule.spawn("supervisor", pair.forward.supervise)
    pair.until(lambda: pair.is_copied, "east is mirrored again")
    read_on(story)
    pair.destination = pair.west
    story.transactions()
    made = story.plan(ChangeoverKind.SWITCHOVER, SWITCHOVER, THERE)
    assert made.forecast["records_estimated"] == 0
    receipts = story.receipts(made)
    assert receipts["cut"]["loss"]["records_lost"] == 0
    assert sorted(story.alone(pair.east)) == sorted(kept)
    read_on(story)
    assert receipts["move_groups"]["repeated"] == sum(story.read_again().values()) == 0
    pair.reverse.from_cut = MemoryLedgerState(pair.ledger).cut(receipts["cut"]["cut"])
    pair.start_reverse()
    pair.until(lambda: not story.alone(pair.west), "west is mirrored back")


def lose_west(story: Story) -> None:
    """With a driver again that has recorded less than it copied."""
    pair = story.pair
    pair.schedule.wait(READ_EVERY_S)
    mark = len(pair.taken)
    for place in EVERYWHERE:
        assert pair.produce(*place, at=pair.west)
    wait_until(pair, lambda: not story.alone(pair.west))
    pair.reverse.end_at_once()
    tail = pair.taken[mark:]
    assert all(pair.produce(*place, at=pair.west) for place in EVERYWHERE[1:])
    read_on(story)
    pair.stop_groups()
    pair.west.available = False
    pair.schedule.wait(READ_EVERY_S)
    pair.destination = pair.east
    lost = story.alone(pair.west)
    story.read_again()
    made = story.plan(ChangeoverKind.FAILOVER, FAILOVER, BACK)
    story.require_loss(made.forecast, lost)
    receipts = story.receipts(made)
    story.require_loss(receipts["cut"]["loss"], lost)
    assert receipts["settle"][REVERSE]["records"] == len(tail)
    assert receipts["move_groups"]["repeated_bound"] == "at_least"
    assert receipts["move_groups"]["repeated"] <= sum(story.read_again().values())
    story.lost[story.operation_id] = lost


def read_on(story: Story) -> None:
    """Groups read all there is, and recorders see it."""
    for one in story.pair._consumers:
        one.poll()
    story.pair.recorders.record_all()


def wait_until(pair: ChangingPair, is_so: Callable[[], bool]) -> None:
    """In steps that are shorter than a round."""
    deadline = pair.schedule.monotonic() + 30.0
    while not is_so():
        assert pair.schedule.monotonic() < deadline
        pair.schedule.wait(0.005)
