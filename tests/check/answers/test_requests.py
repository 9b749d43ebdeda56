"""What operators ask for, held against what the ledger knows of the flow: what it would do, and why not."""

from dataclasses import replace

import pytest

from ledger.answers.requests import judge
from ledger.errors import PreconditionError, UsageError
from ledger.facts.requests import (
    AcceptForeign,
    FlowRequests,
    OperatorRequest,
    Pause,
    Request,
    Resume,
    Resync,
    SkipTo,
)
from ledger.mirror.requests import Judgement, KnownFlow, KnownPartition

KNOWN = KnownFlow(
    "east-to-west",
    (
        KnownPartition("orders", 0, 100, None),
        KnownPartition("orders", 1, 50, None),
        KnownPartition("events", 0, 7, None),
    ),
    FlowRequests(),
)
STOPPED = replace(KNOWN, partitions=(KnownPartition("orders", 1, 50, "foreign_write"), *KNOWN.partitions))


BY_ANNA = "paused by anna 1970-01-01 00:00:01Z, broker move, OPS-7; operation op-1"


def paused(topic: str | None) -> KnownFlow:
    """The flow after a pause that its driver has not answered yet."""
    pause = OperatorRequest(
        operation_id="op-1",
        asked=Pause(topic=topic),
        asked_in_words="by anna 1970-01-01 00:00:01Z, broker move, OPS-7; operation op-1",
    )
    return replace(KNOWN, requests=FlowRequests((pause,)))


def refused(ask: Request, flow: KnownFlow = KNOWN) -> str:
    """The message of a request that cannot be granted as things stand."""
    with pytest.raises(PreconditionError) as error:
        judge(ask, flow)
    assert error.value.exit_code == 5
    assert "nothing was recorded" in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("ask", "content"),
    [
        (Pause(), {"topic": None}),
        (Pause(topic="orders"), {"topic": "orders"}),
        (
            SkipTo(topic="orders", partition=1, offset=51),
            {"topic": "orders", "partition": 1, "offset": 51},
        ),
        (Resync(topic="orders"), {"topic": "orders", "partition": None, "offset": None}),
        (
            Resync(topic="orders", partition=0, offset=100),
            {"topic": "orders", "partition": 0, "offset": 100},
        ),
    ],
)
def test_what_can_be_done_is_recorded_as_the_protocol_has_it(
    ask: Request, content: dict[str, object]
) -> None:
    assert judge(ask, KNOWN).is_needed
    assert ask.content() == content


@pytest.mark.parametrize(
    ("ask", "content"),
    [
        (Resume(), {"topic": None, "partition": None}),
        (Resume(topic="orders", partition=1), {"topic": "orders", "partition": 1}),
        (AcceptForeign(topic="orders"), {"topic": "orders", "partition": None}),
    ],
)
def test_what_stopped_can_be_let_go_on(ask: Request, content: dict[str, object]) -> None:
    judgement = judge(ask, STOPPED)
    assert judgement.is_needed
    assert "orders partition 1 (foreign_write)" in judgement.words
    assert ask.content() == content


@pytest.mark.parametrize(
    ("ask", "telling"),
    [
        (Pause(topic="nope"), "it has events, orders"),
        (Resume(topic="orders", partition=2), "it has 0, 1"),
        (SkipTo(topic="events", partition=1, offset=9), "no partition 1 of topic events"),
    ],
)
def test_what_the_ledger_does_not_know_is_refused(ask: Request, telling: str) -> None:
    with pytest.raises(UsageError, match=telling) as error:
        judge(ask, KNOWN)
    assert error.value.exit_code == 2
    assert "nothing was recorded" in str(error.value)


@pytest.mark.parametrize("offset", [0, 99, 100])
def test_nothing_can_be_skipped_below_the_position(offset: int) -> None:
    skip = SkipTo(topic="orders", partition=0, offset=offset)
    assert "stands at source offset 100 of orders partition 0" in refused(skip)
    assert judge(replace(skip, offset=101), KNOWN).is_needed


def test_nothing_can_be_copied_again_above_the_position() -> None:
    message = refused(Resync(topic="orders", partition=0, offset=101))
    assert "`mirror-ledger skip-to east-to-west --topic orders --partition 0 --offset 101`" in message


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (Resume(), "the flow is neither paused nor stopped"),
        (Resume(topic="orders"), "topic orders is neither paused nor stopped"),
        (AcceptForeign(topic="orders"), "nothing of topic orders is stopped"),
    ],
)
def test_nothing_to_do_is_said(ask: Request, words: str) -> None:
    assert judge(ask, KNOWN) == Judgement(is_needed=False, words=words)


def test_a_pause_is_asked_for_once_and_ended_as_a_whole() -> None:
    flow = paused(None)
    again = judge(Pause(), flow)
    assert (again.is_needed, "asked for already by operation op-1" in again.words) == (False, True)
    part = judge(Pause(topic="orders"), flow)
    assert part == Judgement(is_needed=False, words="the whole of flow east-to-west is paused")
    message = refused(Resume(topic="orders"), flow)
    assert "topic orders cannot be resumed by itself" in message
    assert "End the pause with `mirror-ledger resume east-to-west`" in message
    assert judge(Resume(), flow) == Judgement(
        is_needed=True,
        words=f"the pause of the whole flow ends ({BY_ANNA}); 3 partitions resume: events partition 0; "
        "orders partitions 0-1",
    )


def test_a_partition_of_a_paused_topic_is_not_resumed_by_itself() -> None:
    flow = paused("orders")
    message = refused(Resume(topic="orders", partition=1), flow)
    assert "`mirror-ledger resume east-to-west --topic orders`" in message
    assert not judge(Resume(topic="events"), flow).is_needed
    whole = Resume(topic="orders")
    assert judge(whole, flow) == Judgement(
        is_needed=True,
        words=f"the pause of topic orders ends ({BY_ANNA}); 2 partitions resume: orders partitions 0-1",
    )
    assert whole.content() == {"topic": "orders", "partition": None}


def test_resuming_says_what_goes_on_after_the_pause_and_after_stops() -> None:
    flow = replace(paused(None), partitions=(*STOPPED.partitions[:2], *STOPPED.partitions[3:]))
    gone = KnownPartition("former", 0, 9, None, is_deleted=True)
    words = judge(Resume(), replace(flow, partitions=(*flow.partitions, gone))).words
    assert words == (
        f"the pause of the whole flow ends ({BY_ANNA}); 3 partitions resume: events partition 0; "
        "orders partitions 0-1; of these had stopped, and try again: orders partition 1 (foreign_write)"
    )


def test_what_runs_is_not_told_to_go_on() -> None:
    words = judge(Resume(), STOPPED).words
    assert words.startswith("1 partition resumes: orders partition 1; of these had stopped")
