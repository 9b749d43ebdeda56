"""A chain of two maps as one map: from the source of the first to the target of the second.

What the second has not come to is beyond the end, and what it began behind is before the start. What the second left
out is left out, for the second's reason. Of unpaired records of either nobody knows where in the source they are
from: not before the place where the first map stood.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from ledger.domain.facts import GapCause
from ledger.domain.offsets.offset_map import OffsetMap
from ledger.domain.offsets.offset_ranges import OffsetRange
from ledger.domain.offsets.stretches import Segment, Unmapped, Unpaired
from ledger.domain.pair.claims import leftover
from ledger.domain.pair.links import Route

_Piece = Segment | Unmapped
_Kind = TypeVar("_Kind", Segment, Unmapped, Segment | Unmapped)


def composed(first: Route, second: Route) -> Route | None:
    """The route of a chain; None when the second flow leaves out what the first wrote, as those that do not relay."""
    offset_map = _composed_map(first.offset_map, second.offset_map)
    if offset_map is None:
        return None
    through = [*second.offset_map.segments, *second.old]
    old = [*_through(first.old, through), *_through(first.offset_map.segments, second.old)]
    reached = max((found.source_end for found in through), default=0)
    unknown = [*first.doubted, (first.offset_map.target_end, reached)]
    return Route(
        offset_map=offset_map,
        old=tuple(sorted(old)),
        old_unpaired=(
            *_unpaired(first.old_unpaired, second.old_unpaired, first.offset_map, through),
            *_unpaired(first.offset_map.unpaired, (), first.offset_map, second.old),
        ),
        doubted=leftover((*second.doubted, *_images(unknown, through)), ()),
        doubted_at_source=leftover(
            (*first.doubted_at_source, *_origins(second.doubted_at_source, first.copies)), ()
        ),
        is_begun=first.is_begun and second.is_begun,
        is_relay=first.is_relay,
    )


def _through(segments: Iterable[Segment], following: Iterable[Segment]) -> Iterator[Segment]:
    """Where copies of a first map went by a second one."""
    held = list(following)
    for segment in segments:
        shift = segment.source_start - segment.target_start
        for found in held:
            low = max(segment.target_start, found.source_start)
            high = min(segment.target_end, found.source_end)
            if low < high:
                yield Segment(low + shift, high + shift, found.target_start + low - found.source_start)


def _images(ranges: Iterable[OffsetRange], segments: Iterable[Segment]) -> Iterator[OffsetRange]:
    held = list(segments)
    for start, end in ranges:
        for found in held:
            low, high = max(start, found.source_start), min(end, found.source_end)
            if low < high:
                shift = found.target_start - found.source_start
                yield low + shift, high + shift


def _origins(ranges: Iterable[OffsetRange], segments: Iterable[Segment]) -> Iterator[OffsetRange]:
    swapped = (Segment(found.target_start, found.target_end, found.source_start) for found in segments)
    yield from _images(ranges, swapped)


def _composed_map(first: OffsetMap, second: OffsetMap) -> OffsetMap | None:
    start, end = _source_of(first, second.source_start), _source_of(first, second.source_end)
    pieces = _joined_up(list(_carried(first, second, start, end)), second)
    segments = tuple(piece for piece in pieces if isinstance(piece, Segment))
    left_out = tuple(piece for piece in pieces if isinstance(piece, Unmapped))
    if not segments and any(piece.cause is GapCause.MIRROR_WRITE for piece in left_out):
        return None
    return OffsetMap(
        flow=f"{first.flow}, {second.flow}",
        source=first.source,
        target=second.target,
        segments=segments,
        unmapped=left_out,
        unpaired=tuple(
            sorted(
                _unpaired(first.unpaired, second.unpaired, first, second.segments),
                key=lambda found: found.target_start,
            )
        ),
        source_start=start,
        source_end=end,
        target_end=second.target_end,
        epoch_starts=first.epoch_starts,
    )


def _source_of(offset_map: OffsetMap, target_offset: int) -> int:
    """The source offset of the first record at or behind a target offset; the end of the map without one."""
    following = bisect_right(offset_map.segments, target_offset, key=lambda found: found.target_end)
    if following == len(offset_map.segments):
        return offset_map.source_end
    found = offset_map.segments[following]
    return found.source_start + max(target_offset - found.target_start, 0)


def _carried(first: OffsetMap, second: OffsetMap, start: int, end: int) -> Iterator[_Piece]:
    """What becomes of source offsets `[start, end)`, in order; what was left out does not say where yet."""
    held = _pieces(second)
    for piece in _pieces(first):
        low, high = max(piece.source_start, start), min(piece.source_end, end)
        if low >= high:
            continue
        if isinstance(piece, Unmapped):
            yield replace(piece, source_start=low, source_end=high)
            continue
        shift = piece.source_start - piece.target_start
        for found in _overlapping(held, low - shift, high - shift):
            yield _moved(
                found, max(low, found.source_start + shift), min(high, found.source_end + shift), shift
            )


def _pieces(offset_map: OffsetMap) -> list[_Piece]:
    pieces: list[_Piece] = [*offset_map.segments, *offset_map.unmapped]
    return sorted(pieces, key=lambda piece: piece.source_start)


def _moved(piece: _Piece, start: int, end: int, shift: int) -> _Piece:
    """A part of a piece of the second map, as it lies in the source of the first."""
    if isinstance(piece, Unmapped):
        return replace(piece, source_start=start, source_end=end)
    return Segment(start, end, piece.target_start + start - shift - piece.source_start)


def _joined_up(pieces: Sequence[_Piece], second: OffsetMap) -> list[_Piece]:
    """The pieces, each stretch that was left out with the place where the target stood."""
    first_target = next(
        (piece.target_start for piece in pieces if isinstance(piece, Segment)), second.target_end
    )
    stood, told = first_target, list[_Piece]()
    for piece in pieces:
        if isinstance(piece, Segment):
            stood = piece.target_end
            told.append(piece)
        else:
            told.append(replace(piece, target_start=stood))
    return told


def _unpaired(
    of_first: Iterable[Unpaired], of_second: Iterable[Unpaired], first: OffsetMap, through: Sequence[Segment]
) -> Iterator[Unpaired]:
    for found in of_second:
        yield replace(found, source_start=_source_of(first, found.source_start))
    for found in of_first:
        for start, end in _images([(found.target_start, found.target_end)], through):
            yield Unpaired(found.source_start, start, end)


def _overlapping(pieces: Sequence[_Kind], start: int, end: int) -> Iterator[_Kind]:
    """Those of ascending pieces that reach into source offsets `[start, end)`."""
    following = bisect_right(pieces, start, key=lambda piece: piece.source_end)
    while following < len(pieces) and pieces[following].source_start < end:
        yield pieces[following]
        following += 1
