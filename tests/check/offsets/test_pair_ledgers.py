"""What worked cases ask the algebra, read from tables, is what lives were recorded as."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger.offsets.first_unread import first_unread
from tests.support.pair_ledgers import Log, PairLedger
from tests.support.pair_lives import Life
from tests.support.pair_logs import WORLDS, other_than
from tests.support.pair_tables import names_of, recorded_group, recorded_pair, snapshot_of

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
