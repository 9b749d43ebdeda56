"""Lives of two clusters and of groups that move between them: nobody skips a record, and repeats are as few as told."""

from collections import Counter
from collections.abc import Iterator

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger.facts.syncs import OffsetRange
from ledger.offsets.statuses import TranslationStatus
from ledger.store import catalog
from tests.support.algebra.first_unread import WITHOUT_OFFSET, KnownPair, Place, difference, first_unread
from tests.support.algebra.read import KnownGroup, read_offsets_of
from tests.support.algebra.translation import Commit
from tests.support.group_ledgers import Log, PairLedger
from tests.support.group_lives import Life
from tests.support.group_logs import WORLDS, Group, other_than
from tests.support.group_tables import names_of, recorded_group, recorded_pair, snapshot_of

STATUS = TranslationStatus
QUERY = catalog.query("offset_translation")
SEEDS, IN_WORLDS = st.integers(0, 2**32), st.sampled_from(sorted(WORLDS))
STORMS = settings(max_examples=50, print_blob=True, deadline=None)
CALMS = settings(max_examples=40, print_blob=True, deadline=None)


def lived(seed: int, world: str, *, is_calm: bool = False) -> Iterator[Life]:
    """The life, at about every second of its moments."""
    life = Life(seed, world, is_calm=is_calm)
    for _ in life.live(life.chance.randint(5, 60)):
        if life.chance.random() < 0.5:
            yield life


@STORMS
@given(SEEDS, IN_WORLDS)
def test_no_group_passes_a_record_that_it_has_not_read(seed: int, world: str) -> None:
    for life in lived(seed, world):
        for group in life.judged():
            place = life.place(group)
            if place.offset is not None:
                skipped = life.skipped(group.at, other_than(group.at), life.read(group), place.offset, group)
                assert not skipped, (group.name, place, skipped, life.told())


def every_offset(life: Life, here: str) -> Iterator[tuple[int, Place]]:
    """Where a group goes on that has read from the beginning to an offset, for each offset of a log."""
    pair, log = life.pair(here, other_than(here)), life.logs[here]
    for offset in range(log.end + 1):
        commit = Commit(
            offset=offset,
            topic_id=log.partition.topic_id,
            leader_epoch=log.epoch_before(offset),
            made_after_ms=life.now_ms + 1_000_000,
        )
        yield offset, first_unread(pair, KnownGroup(here=commit, highest_seen=offset))


@STORMS
@given(SEEDS, IN_WORLDS)
def test_no_commit_offset_passes_a_record_that_lies_behind_it(seed: int, world: str) -> None:
    life = Life(seed, world, is_calm=False)
    for _ in life.live(life.chance.randint(5, 60)):
        pass
    for here in ("east", "west"):
        for offset, place in every_offset(life, here):
            if place.offset is not None and life.maps_are_told():
                read = life.logs[here].numbers(0, offset)
                skipped = life.skipped(here, other_than(here), read, place.offset)
                assert not skipped, (here, offset, place, skipped, life.told())


@CALMS
@given(SEEDS, IN_WORLDS)
def test_what_is_unread_and_repeated_is_so_record_by_record(seed: int, world: str) -> None:
    """Where flows tell what they do and no log loses anything: by what commits and recorded moves say.

    The same of any other offset that a group might go on at, as the offset of a time may be any.
    """
    for life in lived(seed, world, is_calm=True):
        for group in life.judged():
            place, there = life.place(group), life.logs[other_than(group.at)]
            if place.offset is None:
                continue
            wanted, said = told_exactly(life, group), life.said(group)
            assert in_ranges(life, group, place.unread) == sorted(wanted - said), life.told()
            again = sorted(there.numbers(place.offset) & wanted & said)
            assert in_ranges(life, group, place.repeated) == again, life.told()
            offset = life.chance.randint(there.log_start, there.end)
            found = difference(place, offset)
            assert found is not None
            assert in_ranges(life, group, found.skipped) == sorted(there.numbers(0, offset) & wanted - said)
            assert in_ranges(life, group, found.repeated) == sorted(there.numbers(offset) & wanted & said)


def in_ranges(life: Life, group: Group, ranges: tuple[OffsetRange, ...]) -> list[int]:
    """Records that are for the group: what a filter leaves out later cannot be told yet."""
    there = life.logs[other_than(group.at)]
    wanted = told_exactly(life, group)
    if told_exactly_of_others(life, group):
        wanted |= life.of_others(group.at, there.cluster)
    return sorted(number for number in there.in_ranges(ranges) if number in wanted)


def told_exactly(life: Life, group: Group) -> set[int]:
    """What lies there for the group; below its commit there it has read what others brought, it says."""
    here, there = group.at, other_than(group.at)
    wanted = life.wanted(here, there)
    if told_exactly_of_others(life, group) and life.has_been(group, there):
        wanted |= life.of_others(here, there) & life.logs[there].numbers(life.logs[there].log_start)
    return wanted


def told_exactly_of_others(life: Life, group: Group) -> bool:
    """Not behind the first map of a chain, nor where who was put back may have passed copies."""
    pair = life.pair(group.at, other_than(group.at))
    is_rewound = read_offsets_of(life.known_group(group), pair.here, pair.there).is_rewound
    return life.world != "chain" and not is_rewound


def test_the_lives_skip_with_the_maps_alone() -> None:
    """The property can fail: by the lowest record that the maps hold behind the commit, groups would pass others."""
    passed: Counter[str] = Counter()
    for world in ("pair", "mesh"):
        for seed in range(20):
            for life in lived(seed, world):
                for group in life.judged():
                    there = other_than(group.at)
                    offset = by_maps_alone(life.pair(group.at, there), life.known_group(group))
                    passed[world] += bool(life.skipped(group.at, there, life.read(group), offset, group))
    assert set(+passed) == {"pair", "mesh"}


def test_groups_of_lives_come_back_to_what_others_brought() -> None:
    """Places begin with it wherever there is any; who is not known to have been there would pass it."""
    begun: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for world in ("chain", "fan_in", "one_way", "origin", "two_sources"):
        for seed in range(20):
            for life in lived(seed, world):
                for group in life.judged():
                    there, known = other_than(group.at), life.known_group(group)
                    place = first_unread(life.pair(group.at, there), known)
                    begun[world] += place.status is STATUS.OTHERS
                    of_a_stranger = KnownGroup(here=known.here, highest_seen=known.highest_seen)
                    offset = first_unread(life.pair(group.at, there), of_a_stranger).offset or 0
                    passed[world] += bool(life.skipped(group.at, there, life.read(group), offset, group))
    assert set(+begun) == {"chain", "fan_in", "one_way", "origin", "two_sources"}
    assert set(+passed) == {"chain", "one_way", "origin", "two_sources"}


def by_maps_alone(pair: KnownPair, group: KnownGroup) -> int:
    committed = 0 if group.here is None else group.here.offset
    stretches = (stretch for link in pair.links for stretch in link.stretches)
    found = (start for stretch in stretches for start, _ in stretch.there_from(committed))
    return min(found, default=max((link.there_end for link in pair.links), default=0))


def test_there_is_an_answer_and_mostly_the_lowest_unread_record() -> None:
    """A rule that never answers, or goes back to the beginning, does not pass."""
    reasons: Counter[TranslationStatus] = Counter()
    lowest: Counter[bool] = Counter()
    for world in sorted(WORLDS):
        for seed in range(10):
            for life in lived(seed, world):
                for group in life.judged():
                    place, there = life.place(group), life.logs[other_than(group.at)]
                    reasons[place.status] += 1
                    if place.offset is not None:
                        wanted = (
                            life.wanted(group.at, there.cluster, group) - life.filtered - life.read(group)
                        )
                        lowest[place.offset >= first_of(there.numbers_at(), wanted, place.offset)] += 1
    answered = sum(number for status, number in reasons.items() if status not in WITHOUT_OFFSET)
    assert set(reasons) | {STATUS.NO_COMMIT_EMPTY, STATUS.NO_COMMIT, STATUS.HIDDEN} == set(QUERY.statuses)
    assert answered > 0.75 * reasons.total(), reasons
    assert lowest[True] > 0.85 * lowest.total(), lowest


def first_of(numbers_at: dict[int, int], wanted: set[int], otherwise: int) -> int:
    """The lowest offset of wanted numbers."""
    return min((offset for offset, number in numbers_at.items() if number in wanted), default=otherwise)


PRINTED = settings(print_blob=True, deadline=None, max_examples=30)


@PRINTED
@given(st.integers(0, 2**32), st.sampled_from(sorted(WORLDS)))
@example(1435, "fan_in")  # both topics were recreated, and no flow has gone on since
def test_places_by_the_tables_are_those_of_the_life(seed: int, world: str) -> None:
    life = Life(seed, world, is_calm=False)
    for _ in life.live(life.chance.randint(5, 60)):
        pass
    ledger, topic = PairLedger(snapshot_of([life])), names_of([life])[0].topic
    for group in life.groups:
        if group.at in group.sides and group.sides[group.at].seen:
            here, there = (Log(name, topic, 0) for name in (group.at, other_than(group.at)))
            expected = first_unread(recorded_pair(life, group.at), recorded_group(life, group))
            found = first_unread(ledger.pair(here, there), ledger.group(group.name, here, there))
            assert found == expected, (group.name, life.told())
