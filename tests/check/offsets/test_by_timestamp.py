"""What another offset than the place would skip and repeat."""

from ledger.offsets.first_unread import Difference, Place, PlaceStatus, difference


def test_skips_are_what_is_unread_below_and_repeats_what_is_read_behind() -> None:
    place = Place(offset=4, status=PlaceStatus.EXACT, unread=((4, 6), (9, 12)), read=((0, 4), (6, 9)))
    assert place.repeated == ((6, 9),)
    assert difference(place, 4) == Difference((), ((6, 9),))
    assert difference(place, 2) == Difference((), ((2, 4), (6, 9)))
    later = difference(place, 10)
    assert later is not None
    assert (later.skipped, later.skips, later.repeated, later.repeats) == (((4, 6), (9, 10)), 3, (), 0)


def test_without_a_place_there_is_nothing_to_compare_with() -> None:
    assert difference(Place(offset=None, status=PlaceStatus.NO_MAP), 3) is None
