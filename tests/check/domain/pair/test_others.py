"""Records there that no flow of the pair carries: whose they are, and what a group that has been there may expect."""

from ledger.domain.pair.first_unread import PlaceStatus
from tests.support.histories import copied
from tests.support.pairs import EAST, NORTH, WEST, at, flow, place


def test_who_comes_back_passes_what_others_brought_meanwhile() -> None:
    """West e0 n0 e1 n1 e2. A group that left west behind n0 has read e1 and e2 at east; n1 is not for it any more."""
    flows = [
        flow(EAST, WEST, copied(0, 1, 0), copied(1, 2, 2), copied(2, 3, 4)),
        flow(NORTH, WEST, copied(0, 1, 1), copied(1, 2, 3)),
    ]
    left = at(2, WEST)
    found = place(flows, at(3, EAST), there=left, moved=(left, 1), ends=(0, 5), is_to_west=True)
    assert ((found.offset, found.status), found.unread, found.others) == ((5, PlaceStatus.AT_END), (), ())
    found = place(flows, at(2, EAST), there=left, moved=(left, 1), ends=(0, 5), is_to_west=True)
    assert ((found.offset, found.status), found.unread, found.others) == (
        (4, PlaceStatus.EXACT),
        ((4, 5),),
        (),
    )
