"""Groups of applications that write what they read continue where all that they had written was copied."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ledger.facts.tables import SHARE_OFFSETS, place_of
from ledger.facts.ways import Direction
from ledger.offsets.between_clusters import outputs_copied, translate_groups
from ledger.offsets.setting import (
    Choice,
    SourceCommit,
    answered_commit,
    beside_outputs,
    last_commit,
    oddities,
)
from ledger.offsets.sheets import Asked, group_answers
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.histories import examples
from tests.support.ledger_rows import row

pytestmark = pytest.mark.long

# -- Lives -----------------------------------------------------------------------------------------
# What was read, written and copied is kept here, record by record: the ledger that the recorder and the mirror write is
# asked for none of it.

GROUP, INPUT, OUTPUT = "billing", "orders", "invoices"
OUTPUT_PARTITIONS = 2
_IDS = {INPUT: "T-orders", OUTPUT: "T-invoices"}
Key = tuple[str, int]
"""A topic and a partition."""


@dataclass
class WorkedApplication:
    """East has orders and invoices; the application writes invoices for each order, then commits behind it.

    `invoices`: by order the places of what was written for it. `ends`: of each partition at east, `copied`: up to where
    the mirror has come, `lacking`: what is not at west below that. `recorded_commits`: what the recorder told of
    commits, by place in its order.
    """

    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    ends: dict[Key, int] = field(default_factory=dict)
    copied: dict[Key, int] = field(default_factory=dict)
    lacking: set[tuple[Key, int]] = field(default_factory=set)
    invoices: list[list[tuple[int, int]]] = field(default_factory=list)
    committed: int = 0
    recorded_commits: list[tuple[int, int]] = field(default_factory=list)
    _round: int = 0
    _epoch: int = 1
    _now_ms: int = 1_000_000
    _mirror_round: int = 0
    _told_ends: dict[Key, int] = field(default_factory=dict)
    _told_commit: int | None = None

    def __post_init__(self) -> None:
        self.ends = {(INPUT, 0): 0} | {(OUTPUT, number): 0 for number in range(OUTPUT_PARTITIONS)}
        self.copied = dict.fromkeys(self.ends, 0)
        claim = {"event": "claimed", "source_cluster": "east", "target_cluster": "west"}
        self.ledger.append("writers", [row("writers", flow="east-to-west", **claim)])

    # What happens ------------------------------------------------------------------------------

    def order(self, orders: int) -> None:
        self.ends[INPUT, 0] += orders

    def work(self, choices: random.Random) -> None:
        """Write for the next order, and commit behind it now or later."""
        if len(self.invoices) == self.ends[INPUT, 0]:
            return
        written = []
        for _ in range(choices.choice((0, 1, 1, 2))):
            partition = choices.randrange(OUTPUT_PARTITIONS)
            written.append((partition, self.ends[OUTPUT, partition]))
            self.ends[OUTPUT, partition] += 1
        self.invoices.append(written)
        if choices.random() < 0.7:
            self.committed = len(self.invoices)

    def mirror(self, key: Key, records: int) -> None:
        """Copy so many records more of a partition, and record it; no more than there are."""
        start = self.copied[key]
        end = min(start + records, self.ends[key])
        if start < end:
            self._synced(key, start, end, kind="copied", target_end=self._at_west(key, start) + end - start)

    def lose(self, key: Key, records: int, cause: str = "retention") -> None:
        """So many records more are gone before they were copied, and the mirror goes on behind them."""
        start = self.copied[key]
        end = min(start + records, self.ends[key])
        if start < end:
            self.lacking |= {(key, offset) for offset in range(start, end)}
            self._synced(key, start, end, kind="lost", cause=cause, target_end=self._at_west(key, start))

    def mirror_without(self, key: Key, offset: int, cause: str, *, is_seen: bool) -> None:
        """Copy all but one offset; `is_seen`: applications would have read it at east."""
        start, end = self.copied[key], self.ends[key]
        if is_seen:
            self.lacking.add((key, offset))
        gaps = [{"source_start": offset, "source_end": offset + 1, "cause": cause}]
        target_end = self._at_west(key, start) + end - start - 1
        self._synced(key, start, end, kind="copied", target_end=target_end, gaps=gaps)

    def _at_west(self, key: Key, offset: int) -> int:
        return offset - sum(where == key and at < offset for where, at in self.lacking)

    def _synced(
        self,
        key: Key,
        start: int,
        end: int,
        *,
        kind: str,
        target_end: int,
        cause: str | None = None,
        gaps: Sequence[object] = (),
    ) -> None:
        self._mirror_round += 1
        topic, partition = key
        target_start = self._at_west(key, start)
        sync = row(
            "offset_syncs",
            flow="east-to-west",
            source_cluster="east",
            target_cluster="west",
            source_topic=topic,
            source_topic_id=_IDS[topic],
            source_partition=partition,
            target_topic=topic,
            target_topic_id=f"{_IDS[topic]}-west",
            target_partition=partition,
            source_start=start,
            source_end=end,
            target_start=target_start,
            target_end=target_end,
            gaps=list(gaps),
            kind=kind,
            cause=cause,
            records=target_end - target_start,
            writer_epoch=1,
            round=self._mirror_round,
        )
        self.ledger.append("offset_syncs", [sync])
        self.copied[key] = end

    def record(self, between: Callable[[], None] = lambda: None, *, confirm: bool = False) -> None:
        """A round of the recorder: the commit, then the ends, rows for what changed; `between`: what happens meanwhile.

        `confirm`: with a sign that all ends are what was recorded last.
        """
        self._round += 1
        self._now_ms += 1000
        if self._told_commit != self.committed:
            self._told_commit = self.committed
            self.recorded_commits.append((place_of(self._epoch, self._round), self.committed))
            self._append("checkpoints", group_id=GROUP, topic=INPUT, committed_offset=self.committed)
        between()
        for (topic, partition), end in self.ends.items():
            if self._told_ends.get((topic, partition)) != end:
                self._told_ends[topic, partition] = end
                self._append(
                    "high_watermarks", topic=topic, partition=partition, last_stable=end, high_watermark=end
                )
        if confirm:
            self.sign()

    def sign(self) -> None:
        """All ends are what this epoch of the recorder has told last."""
        self._round += 1
        sign = {"event": "alive", "flow": None, "source_cluster": "east"}
        at = {"writer_epoch": self._epoch, "round": self._round, "recorded_at_ms": self._now_ms}
        self.ledger.append("writers", [row("writers", **sign, **at)])

    def tell_topic(self, topic: str, *, partitions: int) -> None:
        """The recorder reads how many partitions a topic has."""
        self._round += 1
        at = {"writer_epoch": self._epoch, "round": self._round, "recorded_at_ms": self._now_ms}
        what = {"topic": topic, "topic_id": _IDS[topic], "partitions": partitions, "event": "created"}
        self.ledger.append("topics", [row("topics", cluster="east", configuration="{}", **what, **at)])

    def tell_log_start(self) -> None:
        """Retention has taken all of the outputs, and the recorder reads where they begin now."""
        self._round += 1
        self._now_ms += 1000
        for (topic, partition), end in self.ends.items():
            if topic == OUTPUT:
                ends = {"log_start": end, "last_stable": end, "high_watermark": end}
                self._append("high_watermarks", topic=topic, partition=partition, **ends)

    def restart_recorder(self) -> None:
        """Another epoch of it, which records all that it finds."""
        self._epoch += 1
        self._round = 0
        self._told_ends, self._told_commit = {}, None

    def share_group(self, group: str) -> None:
        """What the recorder told of the group is told of a share group as well."""
        for one in self.ledger.rows("checkpoints"):
            told = {name: one[name] for name in SHARE_OFFSETS.column_names if name in one}
            what = {"group_id": group, "start_offset": one["committed_offset"]}
            self.ledger.append("share_offsets", [row("share_offsets", **{**told, **what})])

    def _append(self, table: str, *, topic: str, **values: object) -> None:
        at = {"writer_epoch": self._epoch, "round": self._round, "recorded_at_ms": self._now_ms}
        where = {"cluster": "east", "topic": topic, "topic_id": _IDS[topic], "read_at_ms": self._now_ms}
        self.ledger.append(table, [row(table, writer="recorder:east", **where, **at, **values)])

    # What is true ------------------------------------------------------------------------------

    def lost_below(self, order: int) -> list[tuple[int, int]]:
        """Places of invoices for orders below one that are not at west: who continues there never writes them."""
        return [
            (partition, offset)
            for written in self.invoices[:order]
            for partition, offset in written
            if offset >= self.copied[OUTPUT, partition] or ((OUTPUT, partition), offset) in self.lacking
        ]


# -- Where groups continue -------------------------------------------------------------------------

_WAY = Direction("east", "west")
_OUTPUTS = {GROUP: (OUTPUT,)}
_SURE = random.Random(1)


def placed(life: WorkedApplication, outputs: dict[str, tuple[str, ...]] | None = None) -> dict[str, Any]:
    """Where the group continues at west."""
    at = life.ledger.at(life.ledger.latest())
    found = translate_groups(at, _WAY, outputs=_OUTPUTS if outputs is None else outputs)  # type: ignore[arg-type]
    [place] = found.to_pylist()
    return dict(place)


def last_reading(life: WorkedApplication, *outputs: str) -> int | None:
    return outputs_copied(life.ledger.at(life.ledger.latest()), ("east", "west"), outputs or (OUTPUT,))


def worked(life: WorkedApplication, orders: int) -> None:
    """So many orders more, each with invoices, and a commit behind them."""
    life.order(orders)
    while len(life.invoices) < life.ends[INPUT, 0]:
        life.work(_SURE)
    life.committed = len(life.invoices)


def copied(life: WorkedApplication, *topics: str) -> None:
    for key, end in life.ends.items():
        if key[0] in topics:
            life.mirror(key, end)


@pytest.fixture
def life() -> WorkedApplication:
    """Ten orders were processed, and all is copied and recorded; ten more, of which the invoices are not copied."""
    found = WorkedApplication()
    worked(found, 10)
    found.record()
    copied(found, INPUT, OUTPUT)
    worked(found, 10)
    found.record()
    copied(found, INPUT)
    return found


def test_a_commit_that_runs_ahead_of_what_was_copied_gives_way_to_an_earlier_one(
    life: WorkedApplication,
) -> None:
    assert life.lost_below(20)
    assert not life.lost_below(10)
    assert placed(life, {})["target_offset"] == 20
    found = placed(life)
    assert (found["committed_offset"], found["target_offset"], found["last_committed_offset"]) == (10, 10, 20)
    assert (found["outputs"], found["status"], found["repeated"]) == ("earlier_commit", "exact", 10)
    assert oddities(found) == set()


def test_a_commit_stays_where_all_that_it_stands_for_was_copied(life: WorkedApplication) -> None:
    copied(life, OUTPUT)
    found = placed(life)
    assert (found["outputs"], found["target_offset"], found["repeated"]) == ("copied", 20, 0)
    assert found["last_committed_offset"] is None


def test_groups_of_no_application_are_answered_as_before(life: WorkedApplication) -> None:
    plain, found = placed(life, {}), placed(life, {"shipping": (OUTPUT,)})
    assert found == {**plain, "outputs": None, "last_committed_offset": None}


@pytest.mark.parametrize("outputs", [("nobody-read-it",), (OUTPUT, "nobody-read-it")])
def test_outputs_that_nobody_knows_are_to_be_accepted_by_name(
    life: WorkedApplication, outputs: tuple[str, ...]
) -> None:
    copied(life, OUTPUT)
    assert last_reading(life, *outputs) is None
    found = placed(life, {GROUP: outputs})
    assert (found["outputs"], found["target_offset"]) == ("not_copied", 20)
    assert oddities(found) == {"outputs_not_copied"}


def test_outputs_of_which_nothing_was_ever_copied_leave_no_commit_to_take() -> None:
    life = WorkedApplication()
    worked(life, 10)
    life.record()
    copied(life, INPUT)
    assert last_reading(life) is None
    assert placed(life)["outputs"] == "not_copied"


def test_a_partition_that_nobody_has_read_may_hold_anything(life: WorkedApplication) -> None:
    copied(life, OUTPUT)
    assert last_reading(life) is not None
    life.tell_topic(OUTPUT, partitions=3)
    assert last_reading(life) is None


def test_a_sign_of_life_tells_that_nothing_was_written_since() -> None:
    life = WorkedApplication()
    worked(life, 5)
    life.record()
    copied(life, INPUT, OUTPUT)
    life.committed = 4  # orders without invoices may be committed by and by
    life.record()
    assert placed(life)["outputs"] == "copied", "it was set back: below the commit of then all was copied"
    life.order(3)
    life.invoices += [[], [], []]
    life.committed = 8
    life.record()
    assert placed(life)["committed_offset"] == 5, "nobody has told of the ends since"
    life.record(confirm=True)
    copied(life, INPUT)
    assert (placed(life)["outputs"], placed(life)["committed_offset"]) == ("copied", 8)


def test_a_sign_of_another_epoch_confirms_nothing(life: WorkedApplication) -> None:
    assert last_reading(life) == place_of(1, 1)
    copied(life, OUTPUT)
    life.restart_recorder()
    life.sign()
    assert last_reading(life) == place_of(1, 2)
    life.record()
    assert last_reading(life) == place_of(2, 2)


def test_a_group_that_was_set_back_since_reads_again_what_it_is_to(life: WorkedApplication) -> None:
    life.committed = 3
    life.record()
    found = placed(life)
    assert (found["committed_offset"], found["outputs"]) == (3, "copied")


def test_share_groups_continue_at_earlier_offsets_as_others_do(life: WorkedApplication) -> None:
    life.share_group("workers")
    asked = Asked(_WAY, Choice(), outputs={"workers": (OUTPUT,), **_OUTPUTS})
    found = {row["group_id"]: row for row in group_answers(life.ledger.at(life.ledger.latest()), asked)}  # type: ignore[arg-type]
    assert found["workers"]["group_type"] == "share"
    for group in ("workers", GROUP):
        assert (found[group]["target_offset"], found[group]["last_committed_offset"]) == (10, 20)


def test_a_commit_on_a_topic_that_was_recreated_since_says_nothing_of_the_last_one() -> None:
    place = {"source_topic": INPUT, "source_partition": 0, "target_topic": INPUT, "target_partition": 0}
    last = {"group_id": GROUP, **place, "committed_offset": 3, "target_offset": 3}
    then = {**last, "committed_offset": 500, "target_offset": None}
    [found] = beside_outputs([last], [then], _OUTPUTS)
    assert (found["outputs"], found["target_offset"]) == ("not_copied", 3)


def test_of_an_earlier_commit_nobody_knows_when_it_was_made() -> None:
    last = SourceCommit(topic_id="T", leader_epoch=3, made_after_ms=700)
    earlier, same = {"last_committed_offset": 20, "committed_offset": 10}, {"committed_offset": 20}
    assert answered_commit(earlier, last) == SourceCommit(topic_id="T")
    assert answered_commit(same, last) == last
    assert last_commit(earlier) == last_commit(same) == 20


@pytest.mark.parametrize(
    "cause", examples(check=["retention"], soak=["retention", "deleted_records", "skipped"])
)
def test_what_was_lost_of_the_outputs_is_not_copied(life: WorkedApplication, cause: str) -> None:
    """Nobody writes again what an application takes for written: it continues before that."""
    last = {key: end for key, end in life.ends.items() if key[0] == OUTPUT and end > life.copied[key]}
    for key in last:
        life.lose(key, 1, cause)
    copied(life, INPUT, OUTPUT)
    assert life.lost_below(20)
    found = placed(life)
    assert (found["committed_offset"], found["outputs"], found["last_committed_offset"]) == (
        10,
        "earlier_commit",
        20,
    )


def test_outputs_that_retention_took_before_anybody_copied_them_are_not_copied(
    life: WorkedApplication,
) -> None:
    life.tell_log_start()
    assert placed(life)["committed_offset"] == 10


GAPS = [
    *(("filtered", True), ("aborted", False), ("keyless", True), ("dead_letter", True), ("kept_local", True)),
    *(("control", False), ("compacted", False), ("mirror_write", False)),
]


@pytest.mark.parametrize(("cause", "is_seen"), examples(check=GAPS[:2], soak=GAPS))
def test_of_gaps_only_what_applications_would_see_is_missing(
    life: WorkedApplication, cause: str, is_seen: bool
) -> None:
    key = next(key for key, end in life.ends.items() if key[0] == OUTPUT and end > life.copied[key])
    life.mirror_without(key, life.copied[key], cause, is_seen=is_seen)
    copied(life, INPUT, OUTPUT)
    assert bool(life.lost_below(20)) is is_seen
    assert placed(life)["committed_offset"] == (10 if is_seen else 20)


@pytest.mark.parametrize("seed", range(examples(check=2, soak=12)))
def test_no_commit_up_to_then_stands_for_what_nobody_copied(seed: int) -> None:
    """By what lies at west: nothing that was written for orders below the commit is missing there."""
    print(f"seed {seed}")
    choices, life, loses = random.Random(seed), WorkedApplication(), seed % 3 == 1
    taken = ahead = 0

    def happens() -> None:
        for _ in range(choices.randrange(4)):
            life.work(choices)

    for _ in range(30):
        life.order(choices.randrange(4))
        happens()
        for key in life.ends:
            if choices.random() < 0.5:
                life.mirror(key, choices.randrange(1, 6))
            if loses and key[0] == OUTPUT and choices.random() < 0.02:
                life.lose(key, choices.randrange(1, 3))
        life.record(happens, confirm=choices.random() < 0.3)
        if choices.random() < 0.05:
            life.restart_recorder()
        if choices.random() < 0.2:
            commit = commit_of_then(life)
            assert life.lost_below(commit) == []
            taken += commit > 0
            ahead += bool(life.lost_below(life.committed))
    life.record(confirm=True)
    copied(life, INPUT, OUTPUT)
    assert life.lost_below(commit_of_then(life)) == []
    assert loses or commit_of_then(life) == life.committed
    assert taken or loses
    assert ahead


def commit_of_then(life: WorkedApplication) -> int:
    """The group's commit as it was recorded by the last reading of which all was copied; 0 where there is none."""
    last = last_reading(life)
    found = [offset for at, offset in life.recorded_commits if last is not None and at <= last]
    return max(found, default=0)
