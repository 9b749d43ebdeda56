"""What a task says of its troubles: which side they are of, and what a quota did."""

from ledger.facts.findings import Side
from ledger.mirror.assignment import Troubles


def test_writing_is_of_the_target() -> None:
    troubles = Troubles()
    assert troubles.unreached == ()
    troubles.trouble_writing("too few replicas")
    troubles.pause(Side.SOURCE, "refused", now=0.0)
    troubles.pause("ledger", "away", now=0.0)
    assert dict(troubles.unreached) == {Side.TARGET: "too few replicas", Side.SOURCE: "refused"}
    troubles.settle_trouble(Side.SOURCE)
    assert dict(troubles.unreached) == {Side.TARGET: "too few replicas"}


def test_a_quota_keeps_nobody_from_reading_or_writing() -> None:
    troubles = Troubles()
    for throttle_ms in (20, 850, 30):
        troubles.throttle(Side.TARGET, throttle_ms)
    troubles.settle_trouble(Side.TARGET)
    assert troubles.throttled_ms == ((Side.TARGET, 850),)
    assert (troubles.trouble, troubles.unreached) == ("the target throttles this client by a quota", ())
