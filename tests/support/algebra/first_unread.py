"""Where a group that has committed here continues there: at the first record that it has not read.

*Here* and *there* are a partition each, of current topics of two clusters; flows may copy either way, by a chain, or
from one origin to both (`links`). Ranges are half-open, offsets of the two logs are never compared.

The rule. What the group has read is a union over both sides (`read_offsets`): `here_to`, all below it here; `there_to`,
all below it there; `alone_to`, all below it there that is there alone; `others_to`, all below it there that is of
others. Unread there are
    U1  records that a map holds at `here_to` or behind it here, unless they lie below `there_to`
    U2  extras, and records of one origin that the flow to here has not come to, unless they lie below `alone_to`
    U3  records of which nobody can tell where they lie here, unless they lie below `there_to`, or the group has come
        to where the map continues behind them
    U4  what records here, at `here_to` or behind it, stand for of which nobody can tell where they lie there: nothing
        below the place where their flow stood, and nothing below `there_to`
    U5  records of others that lie there, unless they lie below `others_to`, or the group never read that topic
The place is the lowest of these that is not below the log start there. When there is none it is the highest of all
maps' ends there and `alone_to`. Repeats are the records from the place on that are read; there are none unless the
sides' orders differ, or something is unread there that lies before them.

*Extras* lie there from the end of the maps to here up to the known end (high watermark, ends of all maps), less what
rows of any flow claim and what is decided to stay; claims count where the flow to here does not relay: otherwise what
flows have brought there is to come to here as well. Below that end all is decided, whatever the cause: filtered,
skipped, lost, kept local, overtaken, or before the place where a flow began. Where no flow goes from there to here
nothing is an extra: what lies there is of `others`, as is what flows of no link have brought. Control records cannot be
distinguished from either: they may cause repeats. A decision is about what nobody claims, so copies are settled first.

Invariants
    F1  no record of the pair that lies there, and that the group has not read, is below the place, unless it is decided
        to be passed, or the log on which it was written has lost it; and none of others, where the group has come back
    F2  the place is not below the log start there; what is unread below that is `expired`
    F3  who moved and read nothing goes back to where it came from, unless that has expired
    F4  what only the ledger lacks repeats and never skips: rows not recorded yet, commits not seen yet, moves that
        nobody recorded, clocks that differ

What simpler rules would skip, found by simulated histories (`tests/check/offsets/test_first_unread.py`):
    - Behind the end of a map its flow may have copied what it has not recorded. Another flow that reads the log,
      wherever it goes, has seen that as mirrors' records: those that no row claims are of U3. So is what lies between
      the ends of several maps where no flow reads it, and what a chain brought of a middle log behind the first map's
      recorded end.
    - A rewound group may have come back above the place where its move had brought it: a commit seen since that is
      higher tells. Who was rewound may have passed copies here that are not recorded: `alone_to` counts no more.
    - A commit that was seen last before a move is not where the group stands: the move's place is.
    - A group may be rewound at both sides: of the commit that it left with and the last one there the lower counts.
    - Copies that a `resync` took out of a map are the only ones until they are made again, and lie where they were:
      they pair as before (U1). Unpaired ones count as unpaired still (U3).
    - Rows without records (behind `adopted` ones) claim nothing: they tell of applications' records, too. Claims of
      an ended incarnation of the topic here are no claims: what it wrote comes back to here.
    - A log that lost its end is known by the flow that has read it; others' rows, and commits, are about what is not
      there any more. What any flow found holds for all (`unreported`), and rows in doubt make U3 or U2 of their
      records.
    - What unpaired rows tell of records there, not only of those here, is unread (U3).
    - Below the log start the lowest unread record that is left counts, not the log start: between them may lie what is
      read.
    - Where nothing is copied from there to here, copies that are not recorded yet count as of others. Who was rewound
      wants to read them again, so of others it has read none that lies behind the end of the maps.

What cannot be known, and is taken so
    - A commit says that all below it was read, expired records too, and what was passed with `expired_on_target`.
    - Records of an ended incarnation count where they have come back to here; commits on it say nothing.
    - A lost end that no row and no leader epoch shows. Two lost ends at one offset, of which the later is shown by
      another flow only, are one where leader epochs tell of the former.
    - A row that was recorded within `MARGIN_MS` of what another flow found, and that nothing proves to be
      younger, stays in doubt: its records are repeated as long as they are there.
    - A rewind that no recorder saw: one above the place of the last move.
    - A group of which no commit on the topic there is known, and no move, never read it, and does not wait for what
      others have brought (`others` says how much lies behind the place): where it would have begun nobody knows.

Statuses: the first that applies, in the order of `TranslationStatus`. The first three of a pair come without an offset.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ledger.facts.syncs import Absence, OffsetRange, PartitionPair, TopicPartition
from ledger.offsets.statuses import TranslationStatus
from tests.support.algebra.links import (
    KnownFlows,
    Link,
    RecordedFlow,
    Route,
    brought,
    brought_on,
    count,
    leftover,
    of_one_origin,
    pairs_there,
    shared,
    taken,
    taken_on,
    unreported,
    without_paired,
)
from tests.support.algebra.read import KnownGroup, KnownLog, ReadOffsets, read_offsets_of
from tests.support.algebra.translation import Commit, SeenEnd

WITHOUT_OFFSET = frozenset(
    {
        TranslationStatus.NO_MAP,
        TranslationStatus.OTHER_INCARNATION,
        TranslationStatus.OTHER_TARGET_INCARNATION,
    }
)
_ABSENT = {Absence.GONE: TranslationStatus.GONE, Absence.HIDDEN: TranslationStatus.HIDDEN}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPair:
    """What the ledger knows of a partition here and a partition there.

    `brought_from`: offsets there below it were copied to here, or shall not be; None: nothing is copied from there
    to here, so what lies there alone is of others. `kept_local`: decided to stay there.
    `is_other_incarnation`: there are maps, to ended incarnations of the topic there.
    """

    here: KnownLog
    there: KnownLog
    links: tuple[Link, ...]
    brought_from: int | None = None
    kept_local: tuple[OffsetRange, ...] = ()
    is_other_incarnation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a group continues. Ranges ascend and are apart from each other; without an offset there are none.

    `unread`, `read`: records there, from the log start on, of the pair, and of others where the group has read; all
    that is unread lies at `offset` or behind. `others`: records there from `offset` on that none of the pair's flows
    carries, read, unread or not waited for. `ahead`: offsets here that were read and are not there yet: repeated when
    they come. `expired`: unread, below the log start there.
    """

    offset: int | None
    status: TranslationStatus
    unread: tuple[OffsetRange, ...] = ()
    read: tuple[OffsetRange, ...] = ()
    others: tuple[OffsetRange, ...] = ()
    ahead: tuple[OffsetRange, ...] = ()
    expired: tuple[OffsetRange, ...] = ()

    @property
    def repeated(self) -> tuple[OffsetRange, ...]:
        """Records that the group reads again; control records cannot be distinguished from extras and others'."""
        return () if self.offset is None else shared(self.read, self.offset)

    @property
    def repeats(self) -> int:
        return count(self.repeated)


def first_unread(pair: KnownPair, group: KnownGroup) -> Place:
    """Where the group continues there."""
    refusal = _refusal(pair, group)
    if refusal is not None:
        return Place(offset=None, status=refusal)
    read = read_offsets_of(group, pair.here, pair.there)
    return _Asked(pair, group, read).place()


def _refusal(pair: KnownPair, group: KnownGroup) -> TranslationStatus | None:
    if not pair.links:
        return (
            TranslationStatus.OTHER_TARGET_INCARNATION
            if pair.is_other_incarnation
            else TranslationStatus.NO_MAP
        )
    if group.here is not None and group.here.topic_id != pair.here.topic_id:
        return TranslationStatus.OTHER_INCARNATION
    return None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a group has read, compared with what is known of a pair."""

    pair: KnownPair
    group: KnownGroup
    read: ReadOffsets

    def place(self) -> Place:
        log_start = self.pair.there.log_start or 0
        unplaced = leftover(self.unplaced(), ())
        alone = shared(self.alone(), self.read.alone_to)
        brought = self.others_unread()
        known = leftover((*self.known_unread(), *unplaced, *alone, *brought), ())
        unread = shared(known, log_start)
        offset = max(min((*self.floors(), *(start for start, _ in unread)), default=self.end()), log_start)
        expired = tuple(leftover(known, unread))
        return Place(
            offset=offset,
            status=self.status(
                offset,
                expired=bool(expired),
                kinds={
                    TranslationStatus.UNPLACED: unplaced,
                    TranslationStatus.EXTRAS: alone,
                    TranslationStatus.OTHERS: brought,
                },
                unread=unread,
            ),
            unread=unread,
            read=shared(leftover((*self.records_there(), *self.others_read()), unread), log_start),
            others=shared(self.others(), offset),
            ahead=self.ahead(),
            expired=expired,
        )

    # -- what is unread there --------------------------------------------------------------------

    def known_unread(self) -> Iterator[OffsetRange]:
        """Records that lie here at the commit or behind it, and were not read there."""
        found = (
            part
            for link in self.pair.links
            for stretch in link.stretches
            for part in stretch.there_from(self.read.here_to)
        )
        yield from shared(found, self.read.there_to)

    def unplaced(self) -> Iterator[OffsetRange]:
        """Records there of which nobody can tell where they lie here."""
        found = (
            one.there
            for link in self.pair.links
            for one in link.unplaced_there
            if one.is_unread(self.read.here_to)
        )
        unclaimed = (*self.unclaimed_mirror_writes(), *self.unclaimed_between_ends())
        yield from shared((*found, *unclaimed), self.read.there_to)

    def unclaimed_mirror_writes(self) -> tuple[OffsetRange, ...]:
        """What a mirror wrote there and no row tells of yet."""
        return leftover(self.pair.there.mirror_writes, self.pair.there.claims)

    def unclaimed_between_ends(self) -> tuple[OffsetRange, ...]:
        """Where nobody reads what lies there: behind the end of one map and before that of another."""
        ends = [link.there_end for link in self.pair.links]
        if self.pair.brought_from is not None:
            return ()
        return leftover([(min(ends), max(ends))], self.pair.there.claims)

    def alone(self) -> tuple[OffsetRange, ...]:
        """Extras, and records of one origin that have not come here: read or not."""
        on_the_way = tuple(found for link in self.pair.links for found in link.only_there)
        return leftover((*self.extras(), *on_the_way), ())

    def extras(self) -> tuple[OffsetRange, ...]:
        """What lies there behind the end of the maps to here, and is to come."""
        if self.pair.brought_from is None or self.pair.brought_from >= self.known_end():
            return ()
        behind = (self.pair.brought_from, self.known_end())
        return leftover([behind], (*self.left_out(), *pairs_there(self.pair.links), *self.pair.kept_local))

    def left_out(self) -> tuple[OffsetRange, ...]:
        """What flows have brought there and the flow to here leaves out, unless it relays."""
        is_relayed = any(link.brings_copies for link in self.pair.links)
        return () if is_relayed else self.pair.there.claims

    def others_unread(self) -> tuple[OffsetRange, ...]:
        """What others have brought since the group was there."""
        start = self.others_to()
        return () if start is None else shared(self.others(), start)

    def others_read(self) -> tuple[OffsetRange, ...]:
        return shared(self.others(), 0, self.others_to() or 0)

    def others_to(self) -> int | None:
        """Who was rewound may want to read again what lies behind the maps: copies that are not recorded yet."""
        read_to = self.read.others_to
        return read_to if read_to is None or not self.read.is_rewound else min(read_to, self.maps_end())

    def floors(self) -> Iterator[int]:
        """Places there below which none of the unread records lies whose place nobody knows."""
        for link in self.pair.links:
            for one in link.unplaced_here:
                if one.here[1] > self.read.here_to:
                    yield max(one.there_from, self.read.there_to, self.pair.there.log_start or 0)

    # -- ends and columns ------------------------------------------------------------------------

    def end(self) -> int:
        """Where a group continues that has read all that is known there."""
        return max(self.read.alone_to, self.maps_end())

    def maps_end(self) -> int:
        return max(link.there_end for link in self.pair.links)

    def known_end(self) -> int:
        claimed = max((end for _, end in self.pair.there.claims), default=0)
        return max(self.end(), claimed, self.pair.there.high_watermark or 0)

    def records_there(self) -> Iterator[OffsetRange]:
        """Records there that a flow of the pair carries, or shall: read or not."""
        yield from pairs_there(self.pair.links)
        yield from (one.there for link in self.pair.links for one in link.unplaced_there)
        yield from self.unclaimed_mirror_writes()
        yield from self.unclaimed_between_ends()
        yield from self.alone()

    def others(self) -> tuple[OffsetRange, ...]:
        """What lies there that no flow of the pair carries."""
        claimed = leftover(self.pair.there.claims, self.records_there())
        if self.pair.brought_from is not None:
            return claimed
        return leftover([(0, self.known_end())], self.records_there())

    def ahead(self) -> tuple[OffsetRange, ...]:
        """What lies here below the commit and has not been copied to there."""
        found: list[OffsetRange] = []
        for link in self.pair.links:
            if link.taken_to is not None and link.taken_to < self.read.here_to:
                found.append((link.taken_to, self.read.here_to))
        pairs = (stretch.here for link in self.pair.links for stretch in link.stretches)
        alone = (one for link in self.pair.links for one in link.only_here)
        on_the_way = shared(alone, 0, self.read.here_to)
        return leftover((*leftover(found, (*self.pair.here.claims, *pairs)), *on_the_way), ())

    def is_next_lost(self) -> bool:
        """Whether the way there has lost the record here that it would read next, which lies at no place there."""
        lost = (found for link in self.pair.links for found in link.lost_here)
        pairs = (stretch.here for link in self.pair.links for stretch in link.stretches)
        return _holds(leftover(lost, pairs), self.read.here_to)

    def status(
        self,
        offset: int,
        *,
        expired: bool,
        kinds: Mapping[TranslationStatus, Iterable[OffsetRange]],
        unread: Iterable[OffsetRange],
    ) -> TranslationStatus:
        """`kinds`: what is unread and has a status of its own where a place begins with it."""
        commit = self.group.here
        if commit is None:
            log_start = self.pair.there.log_start
            is_empty = log_start is not None and log_start == self.known_end()
            return TranslationStatus.NO_COMMIT_EMPTY if is_empty else TranslationStatus.NO_COMMIT
        starts = [link.here_start for link in self.pair.links if link.here_start is not None]
        if starts and commit.offset < min(starts):
            return TranslationStatus.BEFORE_FIRST
        if self.is_next_lost():
            return TranslationStatus.LOST
        if expired:
            return TranslationStatus.EXPIRED_ON_TARGET
        if offset in self.floors():
            return TranslationStatus.UNPLACED
        for status, ranges in kinds.items():
            if _holds(ranges, offset):
                return status
        return self.status_of_commit(commit) or (
            TranslationStatus.EXACT if _holds(unread, offset) else TranslationStatus.AT_END
        )

    def status_of_commit(self, commit: Commit) -> TranslationStatus | None:
        """What the commit here does not say by itself; None: it is there, and all that it says holds."""
        if self.ahead():
            return TranslationStatus.AHEAD
        if commit.absence is not None:
            return _ABSENT[commit.absence]
        if self.read.is_capped:
            return TranslationStatus.TRUNCATED
        return TranslationStatus.REWOUND if self.read.is_rewound else None


def _holds(ranges: Iterable[OffsetRange], offset: int) -> bool:
    return any(start <= offset < end for start, end in ranges)


# Assembly -----------------------------------------------------------------------------------------
# A pair of partitions put together from the rows of all flows that touch them.
#
# Between two incarnations of a topic records go by a flow, by a chain of two through a third log, or from
# one origin to both sides. A chain counts where no flow goes there directly, and the second one relays.


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The last recorded ends of a log; `seen`: how far recorders saw it reach by leader epoch."""

    log_start: int
    high_watermark: int
    seen: tuple[SeenEnd, ...] = ()


def known_pair(
    *,
    here: TopicPartition,
    there: TopicPartition,
    flows: Sequence[RecordedFlow],
    ways: Iterable[PartitionPair] = (),
    relayed: Iterable[PartitionPair] = (),
    ends_here: Ends | None = None,
    ends_there: Ends | None = None,
    kept_local: Iterable[OffsetRange] = (),
    earlier_incarnations: frozenset[str] = frozenset(),
) -> KnownPair:
    """What is known of two partitions of current topics.

    `flows`: all that have rows from or to either, or from or to what these have rows of. `ways`: between which current
    partitions flows copy, though they may have recorded nothing of these incarnations. `relayed`: between which of
    them a flow copies also what mirrors wrote. `earlier_incarnations`: topic ids that the topics had before.
    """
    known = KnownFlows(tuple(flows), tuple(ways), tuple(relayed))
    links = without_paired(_links(known.routes(), here, there))
    ends = [link.decided_to for link in links if link.decided_to is not None]
    return KnownPair(
        here=_known_log(here, known, ends_here),
        there=_known_log(there, known, ends_there, over=earlier_incarnations - {here.topic_id}),
        links=links,
        brought_from=min(ends, default=None),
        kept_local=tuple(kept_local),
        is_other_incarnation=not links
        and any(_is_former(flow, here, there, earlier_incarnations) for flow in flows),
    )


def _is_former(
    flow: RecordedFlow, here: TopicPartition, there: TopicPartition, earlier_incarnations: frozenset[str]
) -> bool:
    """Whether a flow has rows between the two topics of which one is of an incarnation that has ended."""
    topic_ids = {flow.source.topic_id, flow.target.topic_id}
    return topic_ids <= {here.topic_id, there.topic_id} | earlier_incarnations


def _links(routes: Sequence[Route], here: TopicPartition, there: TopicPartition) -> list[Link]:
    """None where nothing is recorded between the two."""
    found = [
        *((route.is_begun, brought(route)) for route in routes if route.goes(there, here)),
        *((route.is_begun, taken(route)) for route in routes if route.goes(here, there)),
        *(
            (one.is_begun and other.is_begun, brought_on(one, other))
            for one, other in _chains(routes, there, here)
        ),
        *(
            (one.is_begun and other.is_begun, taken_on(one, other))
            for one, other in _chains(routes, here, there)
        ),
        *_from_origins(routes, here, there),
    ]
    return [link for _, link in found] if any(is_begun for is_begun, _ in found) else []


def _chains(
    routes: Sequence[Route], source: TopicPartition, target: TopicPartition
) -> Iterator[tuple[Route, Route]]:
    """Two flows in a row of which the second relays, where none goes there directly."""
    if not any(route.goes(source, target) for route in routes):
        for first in routes:
            for second in routes:
                middle = first.target
                if second.is_relay and first.goes(source, middle) and second.goes(middle, target):
                    yield first, second


def _from_origins(
    routes: Sequence[Route], here: TopicPartition, there: TopicPartition
) -> Iterator[tuple[bool, Link]]:
    for to_there in routes:
        for to_here in routes:
            origin = to_there.source
            if to_there.goes(origin, there) and to_here.goes(origin, here):
                yield to_there.is_begun and to_here.is_begun, of_one_origin(to_there, to_here)


def _known_log(
    log: TopicPartition, known: KnownFlows, ends: Ends | None, *, over: frozenset[str] = frozenset()
) -> KnownLog:
    reported = known.reported_by_readers(log, () if ends is None else ends.seen)
    return KnownLog(
        topic_id=log.topic_id,
        log_start=None if ends is None else ends.log_start,
        high_watermark=None if ends is None else ends.high_watermark,
        epoch_starts=known.epoch_starts(log),
        reported=reported,
        heard=unreported(known.reported_by_writers(log), reported),
        claims=known.claims(log, over=over),
        mirror_writes=known.mirror_writes(log),
    )


# By timestamp -------------------------------------------------------------------------------------
# What a group would skip and repeat that continues at another offset than the first unread record.
#
# Such an offset is that of a time: the first record at or behind it. Times are the producers', no commit
# has one, and the sides hold records in orders of their own. So it is the worse alternative, and says how
# much worse.


@dataclass(frozen=True, slots=True)
class Difference:
    """Records of the pair, as ranges there: unread ones that are passed, and read ones that are read again."""

    skipped: tuple[OffsetRange, ...]
    repeated: tuple[OffsetRange, ...]

    @property
    def skips(self) -> int:
        return count(self.skipped)

    @property
    def repeats(self) -> int:
        return count(self.repeated)


def difference(place: Place, offset: int) -> Difference | None:
    """What continuing at an offset means against the exact place; None when there is none to compare with."""
    if place.offset is None:
        return None
    return Difference(shared(place.unread, 0, offset), shared(place.read, offset))
