"""The map from one cluster to a third one by the maps to and from the second: compared record by record."""

import random

import pytest

from ledger.changeover.chained import composed
from ledger.facts.history import expand
from ledger.facts.syncs import Gap, GapCause, OffsetSync, PartitionPair, SyncCause, SyncKind, TopicPartition
from tests.support.histories import copied, lost, started, unpaired

PAIR = PartitionPair(TopicPartition("orders", "E", 0), TopicPartition("orders", "X", 0))


def pairs(rows: list[OffsetSync]) -> dict[int, int]:
    """By source offset the target offset."""
    return {
        at: part.target_start + at - part.source_start
        for one in rows
        for part in expand(one)
        for at in range(part.source_start, part.source_end)
    }


def causes(rows: list[OffsetSync]) -> dict[int, GapCause]:
    return {
        at: gap.cause for one in rows for gap in one.gaps for at in range(gap.source_start, gap.source_end)
    }


def a_map(chance: random.Random, start: int, end: int) -> list[OffsetSync]:
    """Rows that tile the source from `start` to `end`; others write to the target, too."""
    target = chance.randrange(4)
    rows = [started(start, target)]
    while start < end:
        stop = min(start + chance.randint(1, 5), end)
        if chance.random() < 0.15:
            rows.append(lost(start, stop, target))
        else:
            cause = chance.choice([GapCause.CONTROL, GapCause.COMPACTED])
            begin = chance.randrange(start, stop)
            gap = [Gap(begin, chance.randint(begin + 1, stop), cause)] if chance.random() < 0.3 else []
            target += chance.choice([0, 0, 2])
            rows.append(copied(start, stop, target, *gap))
            target = rows[-1].target_end
        start = stop
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_each_record_of_both_maps_is_in_the_map_around_them(seed: int) -> None:
    chance = random.Random(seed)
    first = a_map(chance, chance.randrange(3), 30)
    second = a_map(chance, chance.randrange(4), chance.randint(10, first[-1].target_end + 3))
    found = composed(PAIR, first, second)
    there, onward = pairs(first), pairs(second)
    expected = {source: onward[middle] for source, middle in there.items() if middle in onward}
    assert pairs(found) == expected
    end = min((at for at, middle in there.items() if middle >= second[-1].source_end), default=30)
    assert [one.source_start for one in found[1:]] == [one.source_end for one in found[:-1]], "they tile"
    assert (found[0].kind, found[-1].source_end) == (SyncKind.STARTED, end)
    known = causes(first)
    known |= {at: causes(second)[middle] for at, middle in there.items() if middle in causes(second)}
    own = range(found[0].source_start, end)
    assert causes(found) == {at: known[at] for at in own if at in known}
    given_up = {
        at
        for one in found
        if (one.kind, one.cause) == (SyncKind.LOST, SyncCause.SKIPPED)
        for at in range(one.source_start, one.source_end)
    }
    assert given_up == {at for at in own if at not in expected and at not in known}
    assert all((one.source, one.target) == (PAIR.source, PAIR.target) for one in found)
    assert {one.cause for one in found if one.kind is SyncKind.ADOPTED} <= {SyncCause.THROUGH}


def test_what_never_came_so_far_lies_behind_the_map() -> None:
    """Also a record that nobody could pair with its source."""
    found = composed(PAIR, [copied(0, 6, 0), unpaired(6, 6, 1)], [copied(0, 4, 0)])
    assert [(one.kind, one.source_end, one.target_end) for one in found] == [
        (SyncKind.STARTED, 0, 0),
        (SyncKind.ADOPTED, 4, 4),
    ]
    [nothing] = composed(PAIR, [copied(0, 6, 0)], [started(0, 3)])
    assert (nothing.kind, nothing.source_end, nothing.target_end) == (SyncKind.STARTED, 0, 3)
