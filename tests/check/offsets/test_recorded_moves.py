"""What `offsets set` records is a move of the view `group_moves`: from the commit that was translated to its answer."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ledger.facts.cuts import Cut, LastAppend
from ledger.facts.group_offsets import SeenAppend
from ledger.facts.operations import Why
from ledger.facts.tables import in_order
from ledger.offsets import between_clusters, setting
from ledger.offsets.between_clusters import share_commits, source_commits
from ledger.offsets.setting import (
    Basis,
    Choice,
    EarlierAttempts,
    Outcome,
    Rules,
    SourceCommits,
    TargetGroups,
    reading_on,
    seen_at,
    set_and_record,
)
from ledger.offsets.sheets import PositionSheet, compute_sheet
from ledger.store import sql
from ledger.store.catalog import Value, query
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeClock
from tests.support.histories import examples
from tests.support.ledger_rows import row
from tests.support.ledgers import operators

pytestmark = pytest.mark.long

FLOW = "east-to-west"
CLAIM = row(
    "writers", event="claimed", flow=FLOW, source_cluster="east", target_cluster="west", target_cluster_id="w"
)


def commit(partition: int, offset: int, *, epoch: int, number: int, read_at_ms: int) -> dict[str, object]:
    return row(
        "checkpoints",
        cluster="east",
        group_id="billing",
        topic="orders",
        topic_id="T",
        partition=partition,
        committed_offset=offset,
        leader_epoch=epoch,
        round=number,
        read_at_ms=read_at_ms,
    )


@dataclass
class Moved:
    """Two partitions of which a flow has copied source offsets from 100 on; of one the group has a commit."""

    cluster: MemoryCluster
    ledger: MemoryLedger
    east: MemoryCluster
    clock_of_operators: FakeClock = field(default_factory=FakeClock)

    def set(self) -> set[Outcome]:
        """What the ledger answers, set and recorded as the command does."""
        at = self.ledger.at(self.ledger.latest())
        asked: dict[str, Value] = {"from_cluster": "east", "to_cluster": "west", "flow": FLOW}
        rows = sql.run_query(query("offset_translation"), asked, at).to_pylist()
        left = SourceCommits("east", source_commits(sql.cluster_commits(at, "east")))
        rules = Rules(Choice(accepted=("no_commit",)))
        settings = rules.judged(rows, TargetGroups.read(self.cluster, {"billing"}))
        log = operators(self.ledger, self.cluster.clock)
        _, done = set_and_record(self.cluster, settings, log, Basis(FLOW, "v2.cut", left, ()), Why(), rules)
        return {one.outcome for one in done}

    def move(self, here: str, there: str, operation_id: str | None = None) -> PositionSheet:
        """All groups of a cluster, as `offsets set --from --to` moves them, or an apply that may be continued."""
        at = self.ledger.at(self.ledger.latest())
        target = {"east": self.east, "west": self.cluster}[there]
        found = sql.run_query(
            query("offset_translation"), {"from_cluster": here, "to_cluster": there}, at
        ).to_pylist()
        rules = Rules(Choice())
        sheet = compute_sheet(target, found, rules, from_cluster=here, cut="v2.cut", unread_groups={})
        left = SourceCommits(here, source_commits(sql.cluster_commits(at, here)))
        log = operators(self.ledger, self.clock_of_operators)
        rows = [one for one in self.ledger.rows("operations") if one["operation_id"] == operation_id]
        basis = Basis(None, "v2.cut", left, self._seen(there))
        attempts = EarlierAttempts.of_rows(rows)
        settings = [reading_on(one, attempts) for one in sheet.settings]
        _, done = set_and_record(
            target, settings, log, basis, Why(operation_id=operation_id), rules, attempts=attempts
        )
        return replace(sheet, settings=tuple(done))

    def _seen(self, there: str) -> tuple[SeenAppend, ...]:
        """What the cut of the answers says of other writers."""
        last = {
            (table, row["writer"]): LastAppend(table, row["writer"], row["writer_epoch"], row["round"], 0)
            for table in ("checkpoints", "group_syncs")
            for row in in_order(self.ledger.rows(table))
        }
        return seen_at(Cut.of("memory", last.values()), there)

    def recorded_at_west(self, *, number: int) -> None:
        """What its recorder sees of the group."""
        found = {key[2]: offset for key, offset in self.cluster.committed.items() if key[0] == "billing"}
        for partition, offset in found.items():
            told = commit(partition, offset, epoch=0, number=number, read_at_ms=3_000_000 + number)
            at_west = {"cluster": "west", "topic": "east.orders", "topic_id": self.target_id}
            now = {"recorded_at_ms": 3_000_000 + number, "leader_epoch": None, "writer": "recorder:west"}
            self.ledger.append("checkpoints", [{**told, **at_west, **now}])

    @property
    def target_id(self) -> str:
        return self.cluster.topic_by_name["east.orders"].topic_id

    def moves(self) -> list[dict[str, Any]]:
        with sql.connect(self.ledger.at(self.ledger.latest()), {}, ("group_moves",)) as connection:
            found = connection.sql("select * from group_moves order by from_partition").to_arrow_table()
        return list(found.to_pylist())


@pytest.fixture
def moved() -> Moved:
    cluster, ledger = MemoryCluster("west", FakeClock()), MemoryLedger()
    cluster.create_topic("east.orders", partitions=2, replication_factor=1, configuration={})
    east = MemoryCluster("east", cluster.clock)
    east.create_topic("orders", partitions=2, replication_factor=1, configuration={})
    east.topic_by_name["orders"].topic_id = "T"
    ledger.append("writers", [CLAIM])
    target_id = cluster.topic_by_name["east.orders"].topic_id
    for partition in range(2):
        copied = row(
            "offset_syncs",
            flow=FLOW,
            source_cluster="east",
            target_cluster="west",
            source_topic="orders",
            source_topic_id="T",
            source_partition=partition,
            target_topic="east.orders",
            target_topic_id=target_id,
            target_partition=partition,
            source_leader_epoch=2,
            source_start=100,
            source_end=150,
            target_start=0,
            target_end=50,
            kind="copied",
            records=50,
        )
        ends = row(
            "high_watermarks",
            cluster="west",
            topic="east.orders",
            topic_id=target_id,
            partition=partition,
            high_watermark=50,
        )
        ledger.append("offset_syncs", [copied])
        ends_at_east = {"cluster": "east", "topic": "orders", "topic_id": "T", "high_watermark": 150}
        ledger.append("high_watermarks", [ends, {**ends, **ends_at_east, "writer": "recorder:east"}])
    ledger.append("checkpoints", [commit(0, 105, epoch=2, number=1, read_at_ms=700)])
    ledger.append("checkpoints", [commit(0, 120, epoch=2, number=2, read_at_ms=900)])
    return Moved(cluster, ledger, east)


def test_a_group_that_was_set_has_moved_from_its_commit_to_the_answer(moved: Moved) -> None:
    assert moved.set() == {Outcome.SET}
    with_commit, without = moved.moves()
    [*_, result] = moved.ledger.rows("operations")
    target_id = moved.cluster.topic_by_name["east.orders"].topic_id
    place = {"to_cluster": "west", "to_topic": "east.orders", "to_topic_id": target_id}
    shared = {
        "group_id": "billing",
        "from_cluster": "east",
        "from_topic": "orders",
        "from_topic_id": "T",
        **place,
        "moved_at_ms": result["recorded_at_ms"],
        "operation_id": result["operation_id"],
        "kind": "offsets_set",
        "move_order": result["round"],
        "seen_order": None,
    }
    left = {"left_offset": 120, "left_leader_epoch": 2, "left_made_after_ms": 700}
    nothing = {"left_offset": None, "left_leader_epoch": None, "left_made_after_ms": None}
    assert with_commit == {**shared, **left, "from_partition": 0, "to_partition": 0, "arrived_offset": 20}
    assert without == {**shared, **nothing, "from_partition": 1, "to_partition": 1, "arrived_offset": 0}


def test_what_was_set_already_is_no_move(moved: Moved) -> None:
    moved.cluster.committed |= {("billing", "east.orders", 0): 20, ("billing", "east.orders", 1): 0}
    assert moved.set() == {Outcome.ALREADY_SET}
    assert moved.moves() == []


def offsets(sheet: PositionSheet) -> dict[int, tuple[int | None, str, str, int | None]]:
    return {
        one.answer["source_partition"]: (
            one.answer["target_offset"],
            one.answer["status"],
            str(one.outcome),
            one.answer["repeated"],
        )
        for one in sheet.settings
    }


def test_who_moved_by_all_flows_and_read_nothing_goes_back_exactly(moved: Moved) -> None:
    there = moved.move("east", "west")
    assert offsets(there) == {0: (20, "exact", "set", 0), 1: (0, "no_commit_empty", "set", 0)}
    assert there.is_complete
    assert {(move["kind"], move["left_offset"]) for move in moved.moves()} == {
        ("offsets_set", 120),
        ("offsets_set", None),
    }
    assert {row["flow"] for row in moved.ledger.rows("operations")} == {None}
    again = moved.move("east", "west")
    assert again.counts == {"already_set": 2}
    moved.recorded_at_west(number=1)
    back = moved.move("west", "east")
    assert {part: offset for part, (offset, *_) in offsets(back).items()} == {0: 120, 1: 100}
    assert offsets(back)[0][1:] == ("exact", "set", 0)


def test_a_group_that_an_apply_has_set_and_that_was_started_is_moved_when_it_is_continued(
    moved: Moved,
) -> None:
    assert moved.move("east", "west", "apply-1").is_complete
    place = ("billing", "east.orders", 0)
    moved.cluster.committed[place] += 1
    moved.cluster.members.add("billing")
    again = moved.move("east", "west", "apply-1")
    assert {one.outcome for one in again.settings} == {Outcome.READS_ON}
    assert offsets(again)[0][0] == 20, "where it was set, not where it is"
    assert again.is_complete
    assert moved.move("east", "west", "apply-2").counts == {"has_members": 2}, "nobody else has set it"
    moved.cluster.committed[place] = 3
    assert moved.move("east", "west", "apply-1").counts == {"has_members": 1, "reads_on": 1}, (
        "somebody set it back"
    )


class DiedError(Exception):
    """A process ends."""


def test_who_joined_where_an_apply_had_died_before_it_recorded_what_it_had_set_stands_right(
    moved: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_args: object) -> None:
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(setting._Groups, "_read_back", die)
        with pytest.raises(DiedError):
            moved.move("east", "west", "apply-1")
    put = dict(moved.cluster.committed)
    assert put[("billing", "east.orders", 0)] == 20, "the broker had it"
    moved.cluster.members.add("billing")
    assert moved.move("east", "west", "apply-2").counts == {"has_members": 2}, "nobody else has set it"
    again = moved.move("east", "west", "apply-1")
    assert (again.counts, again.is_complete) == ({"set": 2}, True)
    assert moved.cluster.committed == put
    assert moved.move("east", "west", "apply-1").counts == {"reads_on": 2}, "its result is recorded now"


@pytest.mark.parametrize("ahead_s", examples(check=[3 * 3600], soak=[0, 20 * 60, 3 * 3600]))
def test_no_clock_of_who_moves_a_group_says_what_was_committed_since(moved: Moved, ahead_s: int) -> None:
    moved.clock_of_operators.now_s = 3_000 + ahead_s
    assert moved.move("east", "west").is_complete
    place = ("billing", "east.orders", 0)
    for number, offset in enumerate((3, 5), start=1):  # its owners set it back from 20, and it reads on
        moved.cluster.committed[place] = offset
        moved.recorded_at_west(number=number)
    assert offsets(moved.move("west", "east"))[0][:2] == (105, "rewound"), "it wants to read 105 to 120 again"


def test_the_last_move_is_the_last_of_the_serial_whatever_clocks_say(moved: Moved) -> None:
    place = ("billing", "east.orders", 0)
    moved.clock_of_operators.now_s = 90_000
    assert moved.move("east", "west").is_complete  # from 120 to 20
    moved.recorded_at_west(number=1)
    assert moved.move("west", "east").is_complete
    moved.ledger.append(
        "checkpoints", [commit(0, 110, epoch=2, number=3, read_at_ms=950)]
    )  # set back at east
    moved.clock_of_operators.now_s = 3_000
    moved.cluster.committed[place] = 3
    assert moved.move("east", "west").is_complete  # from 110 to 10
    [*_, last] = sorted(
        (one for one in moved.moves() if one["to_cluster"] == "west" and one["from_partition"] == 0),
        key=lambda one: one["move_order"],
    )
    assert (last["left_offset"], last["arrived_offset"]) == (110, 10)
    moved.recorded_at_west(number=2)
    assert offsets(moved.move("west", "east"))[0][:2] == (110, "exact")


def test_what_a_driver_committed_for_a_group_moves_nobody_and_counts_as_read_by_nobody(moved: Moved) -> None:
    """Else a flow back would create a group again that was deleted at east, from where it never read."""
    moved.cluster.committed |= {("billing", "east.orders", 0): 20, ("audit", "east.orders", 0): 30}
    place = {"target_cluster": "west", "target_topic": "east.orders", "target_topic_id": moved.target_id}
    left = {"source_topic_id": "T", "source_partition": 0, "source_offset": 120, "target_partition": 0}
    synced = {**place, **left, "source_cluster": "east", "source_topic": "orders", "flow": FLOW}
    row_of_sync = row("group_syncs", **synced, group_id="billing", target_offset=20, event="synced")
    moved.ledger.append("group_syncs", [row_of_sync])
    moved.recorded_at_west(number=1)
    before = moved.move("west", "east")
    assert before.settings == (), "it reads at east alone"
    moved.cluster.committed["billing", "east.orders", 0] = 25
    moved.recorded_at_west(number=2)
    after = moved.move("west", "east")
    assert {part: offset for part, (offset, *_) in offsets(after).items()} == {0: 125, 1: 100}


def share_row(cluster: str, topic: str, topic_id: str, offset: int, *, number: int) -> dict[str, object]:
    named = {"cluster": cluster, "group_id": "sharing", "topic": topic, "topic_id": topic_id, "partition": 0}
    stamp = {"writer": f"recorder:{cluster}", "round": number, "recorded_at_ms": 1000 * number}
    return row("share_offsets", **named, **stamp, start_offset=offset, lag=7, read_at_ms=1000 * number)


def test_where_a_share_group_is_done_it_continues_and_goes_back_exactly(moved: Moved) -> None:
    def place(here: str, there: str) -> tuple[int | None, str]:
        at = moved.ledger.at(moved.ledger.latest())
        shared = {"checkpoints": share_commits(at)}
        found = between_clusters.translate(at, (here, there), overrides=shared).to_pylist()
        (answer,) = [one for one in found if one["source_partition"] == 0]
        assert answer["group_id"] == "sharing"
        return answer["target_offset"], answer["status"]

    for number, offset in enumerate((103, 120), start=1):
        moved.ledger.append("share_offsets", [share_row("east", "orders", "T", offset, number=number)])
    not_begun = {**share_row("east", "orders", "T", 0, number=3), "start_offset": None, "partition": 1}
    moved.ledger.append("share_offsets", [not_begun])
    assert place("east", "west") == (20, "exact")
    at_west = share_row("west", "east.orders", moved.target_id, 20, number=4)
    moved.ledger.append("share_offsets", [at_west])
    assert place("west", "east") == (120, "exact")
