"""When ends that stand still are confirmed."""

from ledger.recording.end_confirmation import EndConfirmation


def confirmed_at(changes: set[int], *, until: int, every: int = 5) -> list[int]:
    """Seconds at which ends are confirmed, by looks of which some find changes."""
    confirmation = EndConfirmation(first_seconds=5, heartbeat_seconds=60)
    found = []
    for second in range(0, until + 1, every):
        if confirmation.is_due(second, changed=second in changes):
            confirmation.confirmed(second)
            found.append(second)
    return found


def test_a_cluster_at_rest_is_confirmed_ever_more_rarely_down_to_the_heartbeat() -> None:
    assert confirmed_at({0}, until=300) == [0, 10, 30, 70, 130, 190, 250]


def test_a_change_makes_the_next_standstill_known_soon() -> None:
    assert confirmed_at({0, 200}, until=250) == [0, 10, 30, 70, 130, 190, 205, 215, 235]


def test_while_others_change_there_is_a_confirmation_at_every_heartbeat() -> None:
    assert confirmed_at(set(range(0, 300, 5)), until=295) == [0, 60, 120, 180, 240]
