"""What becomes of operators' requests: facts, states, one receipt each."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ledger.facts.requests import (
    REQUEST_CLASSES,
    Acceptance,
    OperatorRequest,
    RequestKind,
    acceptances,
    pauses_after,
)
from ledger.facts.state import OperationLog
from ledger.facts.syncs import OffsetSync, PartitionPair, SyncCause, SyncKind
from ledger.facts.tables import Row
from ledger.kafka.cluster import PartitionEnds, TopicDescription
from ledger.mirror.assignment import Stop, StopCause
from ledger.mirror.requests import RequestHandler
from ledger.mirror.states import FlowProgress, PartitionState
from tests.support.copy_tasks import RECORDED, SOURCE, TARGET, TOPICS
from tests.support.unasked_cluster import UnaskedCluster


@dataclass
class Cluster(UnaskedCluster):
    """A cluster whose partitions all start and end at the same offsets."""

    alias: str
    now: PartitionEnds | None

    def ends(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], PartitionEnds]:
        return {} if self.now is None else dict.fromkeys(partitions, self.now)

    def topics(self) -> dict[str, TopicDescription]:
        return TOPICS


class Receipts(OperationLog):
    """Each a row by itself."""

    def __init__(self) -> None:
        super().__init__(operator="mirror", new_id=lambda: "receipt")
        self.receipts: list[dict[str, Any]] = []

    def _append(self, rows: Sequence[Row]) -> None:
        [row] = rows
        assert (row["kind"], row["flow"], row["reason"], row["ticket"]) == ("receipt", "flow", None, None)
        self.receipts.append(json.loads(str(row["content"])))


@dataclass
class Handler:
    """Two partitions that stand at 30, the first of them stopped."""

    stopped_by: StopCause = StopCause.FOREIGN_WRITE
    source_ends: PartitionEnds | None = field(default_factory=lambda: PartitionEnds(5, 90, 100, 0))
    earlier: tuple[OperatorRequest, ...] = ()
    log: Receipts = field(default_factory=Receipts)
    resumed: list[PartitionPair] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.progress = FlowProgress([RECORDED])
        for number in (0, 1):
            pair = PartitionPair(replace(SOURCE, partition=number), replace(TARGET, partition=number))
            self.progress.take_on(PartitionState(pair, RECORDED.position))
        self.first.stop = Stop(self.stopped_by, "stopped")

    @property
    def first(self) -> PartitionState:
        return self.progress.states[0]

    @property
    def receipts(self) -> list[dict[str, Any]]:
        return self.log.receipts

    def ask(
        self,
        kind: RequestKind,
        *,
        topic: str | None = SOURCE.topic,
        partition: int | None = 0,
        offset: int | None = None,
    ) -> Sequence[OffsetSync]:
        handler = RequestHandler(
            "flow",
            self.progress,
            Cluster("east", self.source_ends),
            Cluster("west", PartitionEnds(0, 40, 40, 0)),
            self.log,
            self.resumed.extend,
        )
        request = OperatorRequest(
            operation_id="asked",
            asked=REQUEST_CLASSES[kind](topic=topic, partition=partition, offset=offset),
            asked_in_words="by ben",
        )
        facts, give_receipt = handler.answer(request, self.earlier)
        assert self.receipts == [], "the facts come first"
        give_receipt()
        [receipt] = self.receipts
        assert (receipt["request"], receipt["request_kind"]) == ("asked", str(kind))
        return facts

    @property
    def result(self) -> object:
        return self.receipts[0]["result"]


def _asked(
    operation_id: str, kind: RequestKind, topic: str | None, partition: int | None = None
) -> OperatorRequest:
    return OperatorRequest(
        operation_id=operation_id,
        asked=REQUEST_CLASSES[kind](topic=topic, partition=partition),
        asked_in_words="by anna 1970-01-01 00:00:00Z, a move; operation op-1",
    )


def test_resume_lets_stopped_partitions_try_again() -> None:
    handler = Handler()
    assert handler.ask(RequestKind.RESUME, topic=None, partition=None) == []
    assert (handler.result, handler.first.stop, handler.resumed) == ("done", None, [handler.first.pair])


def test_the_receipt_of_resume_says_which_pause_ended_and_what_goes_on() -> None:
    handler = Handler(earlier=(_asked("op-1", RequestKind.PAUSE, None),))
    handler.ask(RequestKind.RESUME, topic=None, partition=None)
    assert handler.receipts[0]["message"] == (
        "the pause of the whole flow ends (paused by anna 1970-01-01 00:00:00Z, a move; operation op-1); "
        f"2 partitions resume: {SOURCE.topic} partitions 0-1; of these had stopped, and try again: "
        f"{SOURCE.topic} partition 0 (foreign_write)"
    )


def test_the_receipt_of_resume_tells_what_stays_paused() -> None:
    handler = Handler(earlier=(_asked("op-1", RequestKind.PAUSE, SOURCE.topic),))
    handler.ask(RequestKind.RESUME)
    assert handler.receipts[0]["message"] == f"no longer stopped, but paused: {SOURCE.topic} partition 0"


def test_resume_when_nothing_is_left_to_end_says_so() -> None:
    handler = Handler()
    handler.ask(RequestKind.RESUME, partition=1)
    assert handler.receipts[0]["message"] == "nothing was paused or stopped any more"


def test_resume_of_another_partition_changes_nothing() -> None:
    handler = Handler()
    handler.ask(RequestKind.RESUME, partition=1)
    assert handler.first.stop is not None
    assert handler.resumed == []


@pytest.mark.parametrize(
    ("cause", "kind", "told"),
    [
        (StopCause.SOURCE_RECREATED, SyncKind.STARTED, (SyncCause.RECREATED, 30, 25, 24)),
        (StopCause.TARGET_RECREATED, SyncKind.SUPERSEDED, (SyncCause.TARGET_RECREATED, 5, 0, 0)),
    ],
)
@pytest.mark.parametrize("request_kind", [RequestKind.RESUME, RequestKind.ACCEPT_FOREIGN])
def test_going_on_begins_another_incarnation_with_a_fact(
    request_kind: RequestKind, cause: StopCause, kind: SyncKind, told: tuple[object, ...]
) -> None:
    handler = Handler(cause)
    [fact] = handler.ask(request_kind)
    assert fact.kind is kind
    assert (fact.cause, fact.source_start, fact.target_end, fact.first_sequence) == told
    assert (
        handler.first.position.source_offset,
        handler.first.position.target_offset,
        handler.first.position.next_sequence,
    ) == told[1:]


def test_skipping_in_another_incarnation_begins_it_first() -> None:
    handler = Handler(StopCause.SOURCE_RECREATED)
    facts = handler.ask(RequestKind.SKIP_TO, offset=40)
    assert [fact.kind for fact in facts] == [SyncKind.STARTED, SyncKind.LOST]


@pytest.mark.parametrize("offset", [31, 100])
def test_skipped_offsets_are_lost_with_their_cause(offset: int) -> None:
    handler = Handler(StopCause.REFUSED)
    [fact] = handler.ask(RequestKind.SKIP_TO, offset=offset)
    assert (fact.kind, fact.cause, fact.source_start, fact.source_end) == (
        SyncKind.LOST,
        SyncCause.SKIPPED,
        30,
        offset,
    )
    assert (handler.first.position.source_offset, handler.first.stop, handler.result) == (
        offset,
        None,
        "done",
    )


@pytest.mark.parametrize("offset", [None, 29, 30, 101])
def test_a_skip_backwards_or_beyond_the_end_is_refused(offset: int | None) -> None:
    handler = Handler()
    assert handler.ask(RequestKind.SKIP_TO, offset=offset) == []
    assert (handler.result, handler.first.position.source_offset) == ("refused", 30)
    assert handler.first.stop is not None
    assert "30" in str(handler.receipts[0]["message"])


def test_foreign_records_are_accepted_up_to_the_end_of_now() -> None:
    handler = Handler()
    assert handler.ask(RequestKind.ACCEPT_FOREIGN) == []
    assert (handler.first.accepted_below, handler.first.stop) == (40, None)
    assert handler.progress.states[1].accepted_below == 0
    [receipt] = handler.receipts
    assert "40" in str(receipt["message"])
    kept = acceptances([{"content": json.dumps(receipt)}])
    assert kept == {
        (SOURCE.topic_id, 0): Acceptance(SOURCE.topic_id, 0, TARGET.topic_id, target_end=25, below=40)
    }


def test_of_a_whole_topic_foreign_records_are_accepted_where_it_stopped() -> None:
    handler = Handler()
    handler.ask(RequestKind.ACCEPT_FOREIGN, partition=None)
    assert [state.accepted_below for state in handler.progress.states] == [40, 0]
    kept = acceptances([{"content": json.dumps(handler.receipts[0])}])
    assert kept.keys() == {(SOURCE.topic_id, 0)}


def test_only_an_acceptance_is_kept_with_its_receipt() -> None:
    handler = Handler()
    handler.ask(RequestKind.RESUME)
    assert acceptances([{"content": json.dumps(receipt)} for receipt in handler.receipts]) == {}


@pytest.mark.parametrize(("offset", "start"), [(None, 5), (5, 5), (30, 30)])
def test_copying_again_supersedes_from_there_on(offset: int | None, start: int) -> None:
    handler = Handler()
    [fact] = handler.ask(RequestKind.RESYNC, offset=offset)
    assert (fact.kind, fact.cause, fact.source_start, fact.source_end, fact.target_end) == (
        SyncKind.SUPERSEDED,
        SyncCause.RESYNC,
        start,
        30,
        25,
    )
    assert (
        handler.first.position.source_offset,
        handler.first.position.next_sequence,
        handler.first.stop,
    ) == (
        start,
        24,
        None,
    )


@pytest.mark.parametrize(("partition", "offset"), [(0, 4), (0, 31), (None, 7)])
def test_copying_again_what_is_not_there_is_refused_and_moves_nothing(
    partition: int | None, offset: int
) -> None:
    handler = Handler()
    assert handler.ask(RequestKind.RESYNC, partition=partition, offset=offset) == []
    assert handler.result == "refused"
    assert [state.position.source_offset for state in handler.progress.states] == [30, 30]


@pytest.mark.parametrize("kind", [RequestKind.SKIP_TO, RequestKind.ACCEPT_FOREIGN, RequestKind.RESYNC])
def test_an_unknown_partition_is_refused(kind: RequestKind) -> None:
    handler = Handler()
    assert handler.ask(kind, topic="payments", offset=40) == []
    assert handler.result == "refused"
    assert "payments partition 0" in str(handler.receipts[0]["message"])


def test_without_a_leader_a_request_is_refused() -> None:
    handler = Handler(source_ends=None)
    assert handler.ask(RequestKind.RESYNC) == []
    assert handler.result == "refused"


def test_without_a_file_nothing_is_read_again() -> None:
    handler = Handler()
    assert handler.ask(RequestKind.RELOAD, topic=None, partition=None) == []
    assert handler.result == "refused"
    assert "no configuration file" in str(handler.receipts[0]["message"])


def test_pauses_and_resumptions_add_up_in_order() -> None:
    def asked(kind: RequestKind, topic: str | None, partition: int | None = None) -> OperatorRequest:
        return _asked("o", kind, topic, partition)

    pause, resume = RequestKind.PAUSE, RequestKind.RESUME
    whole = pauses_after([asked(pause, "a"), asked(pause, None)])
    assert (whole.covers("a"), whole.covers("b")) == (True, True)
    one = pauses_after([asked(pause, "a"), asked(pause, "b"), asked(resume, "b")])
    assert (one.covers("a"), one.covers("b")) == (True, False)
    none = pauses_after([asked(pause, "a"), asked(pause, None), asked(resume, None)])
    assert not none.covers("a")
    part = pauses_after([asked(pause, "a"), asked(resume, "a", 0)])
    assert part.covers("a"), "resuming a stopped partition ends no pause"


@pytest.mark.parametrize("kind", sorted({*RequestKind} - {RequestKind.PAUSE, RequestKind.RELOAD}))
def test_no_request_lets_two_flows_copy_one_partition(kind: RequestKind) -> None:
    handler = Handler(StopCause.COPIED_BY_ANOTHER_FLOW)
    assert handler.ask(kind, offset=40 if kind is RequestKind.SKIP_TO else None) == []
    assert handler.result == "refused"
    assert "let one flow copy it" in str(handler.receipts[0]["message"])
    assert handler.first.stop is not None
    assert handler.resumed == []


def test_resuming_a_flow_leaves_what_another_flow_copies_where_it_is() -> None:
    handler = Handler(StopCause.COPIED_BY_ANOTHER_FLOW)
    second = handler.progress.states[1]
    second.stop = Stop(StopCause.DENIED, "denied")
    assert handler.ask(RequestKind.RESUME, topic=None, partition=None) == []
    assert handler.result == "done"
    assert handler.resumed == [second.pair]
    assert handler.first.stop is not None
