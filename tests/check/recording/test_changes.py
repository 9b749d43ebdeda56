"""Change detection: what is recorded, read again and compared, row by row."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.facts import Checkpoint, HighWatermark, TopicState
from ledger.recording.checkpoints import CheckpointKey, changed_checkpoints, checkpoints_by_key
from ledger.recording.high_watermarks import changed_high_watermarks, high_watermarks_by_key
from ledger.recording.topic_states import TopicEvent, topic_changes
from tests.support.fakes import checkpoint, gone

keys = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), st.integers(0, 1))
reads = st.dictionaries(keys, st.integers(0, 3))


def everything(_: CheckpointKey) -> bool:
    return True


def by_key(offsets: dict[CheckpointKey, int]) -> dict[CheckpointKey, Checkpoint]:
    return checkpoints_by_key([checkpoint(*key, offset) for key, offset in offsets.items()])


@given(st.lists(reads, max_size=5))
def test_replaying_the_rows_gives_what_was_read(looks: list[dict[CheckpointKey, int]]) -> None:
    recorded: dict[CheckpointKey, Checkpoint] = {}
    for at_ms, look in enumerate(looks):
        rows = changed_checkpoints(recorded, by_key(look), was_read=everything, read_at_ms=at_ms)
        recorded |= checkpoints_by_key(rows)
        living = {
            key: row.committed_offset for key, row in recorded.items() if row.committed_offset is not None
        }
        assert living == look
        assert changed_checkpoints(recorded, by_key(look), was_read=everything, read_at_ms=at_ms) == []


def test_a_vanished_commit_is_recorded_once() -> None:
    row = checkpoint("g", "t", 0, 5)
    last = checkpoints_by_key([row])
    assert changed_checkpoints(last, {}, was_read=everything, read_at_ms=9) == [gone(row, 9)]
    last = checkpoints_by_key([gone(row, 9)])
    assert changed_checkpoints(last, {}, was_read=everything, read_at_ms=10) == []


def test_what_was_not_read_has_not_vanished() -> None:
    last = checkpoints_by_key([checkpoint("g", "t", 0, 5)])
    assert changed_checkpoints(last, {}, was_read=lambda key: key[0] != "g", read_at_ms=9) == []


COMMIT = checkpoint("g", "t", 0, 5)


@pytest.mark.parametrize(
    ("changed", "is_change"),
    [
        (replace(COMMIT, committed_offset=6), True),
        (replace(COMMIT, topic_id="id-2"), True),
        (replace(COMMIT, leader_epoch=1), True),
        (replace(COMMIT, metadata="m"), True),
        (replace(COMMIT, group_type="consumer"), True),
        (replace(COMMIT, group_state="Empty"), False),
        (replace(COMMIT, read_at_ms=2), False),
    ],
    ids=str,
)
def test_what_counts_as_a_changed_checkpoint(changed: Checkpoint, is_change: bool) -> None:
    rows = changed_checkpoints(
        checkpoints_by_key([COMMIT]), checkpoints_by_key([changed]), was_read=everything, read_at_ms=9
    )
    assert rows == ([changed] if is_change else [])


END = HighWatermark(
    cluster="east",
    topic="t",
    topic_id="id-1",
    partition=0,
    leader_epoch=0,
    log_start=0,
    last_stable=5,
    high_watermark=5,
    read_at_ms=1,
)


@pytest.mark.parametrize(
    ("changed", "is_change"),
    [
        (replace(END, topic_id="id-2"), True),
        (replace(END, leader_epoch=1), True),
        (replace(END, log_start=1), True),
        (replace(END, last_stable=4), True),
        (replace(END, high_watermark=6), True),
        (replace(END, read_at_ms=2), False),
    ],
    ids=str,
)
def test_what_counts_as_a_changed_high_watermark(changed: HighWatermark, is_change: bool) -> None:
    rows = changed_high_watermarks(high_watermarks_by_key([END]), high_watermarks_by_key([changed]))
    assert rows == ([changed] if is_change else [])


def test_a_partition_that_is_not_read_yields_no_high_watermark() -> None:
    other = replace(END, partition=1)
    assert changed_high_watermarks(high_watermarks_by_key([END]), high_watermarks_by_key([other])) == [other]


def state(topic_id: str = "id-1", partitions: int = 1, rf: int = 1, **settings: str) -> TopicState:
    return TopicState(
        cluster="east",
        topic="t",
        topic_id=topic_id,
        partitions=partitions,
        replication_factor=rf,
        configuration=tuple(settings.items()),
    )


OTHER = replace(state(), topic="other")


@pytest.mark.parametrize(
    ("last", "now", "events"),
    [
        (None, state(), ["created"]),
        (state(), None, ["deleted"]),
        (state(), state(), []),
        (state(), state("id-2"), ["recreated"]),
        (state(), state("id-2", partitions=2, retention="1"), ["recreated"]),
        (state(), state(partitions=2), ["partitions_added"]),
        (state(), state(retention="1"), ["configuration_changed"]),
        (state(), state(partitions=2, retention="1"), ["partitions_added", "configuration_changed"]),
        (state(), state(rf=2), ["observed"]),
    ],
)
def test_topic_events(last: TopicState | None, now: TopicState | None, events: list[str]) -> None:
    before = {"other": OTHER} | ({"t": last} if last else {})
    after = {"other": OTHER} | ({"t": now} if now else {})
    changes = topic_changes(before, after)
    assert [change.event.value for change in changes] == events
    assert all(change.state == (last if change.event is TopicEvent.DELETED else now) for change in changes)


def test_the_first_look_observes() -> None:
    assert [change.event for change in topic_changes({}, {"t": state()})] == [TopicEvent.OBSERVED]
