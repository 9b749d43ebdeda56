"""What each check says of itself."""

from ledger.doctor.checks import Check


def test_a_check_asks_something_of_something() -> None:
    abouts = {"machine", "ledger", "cluster", "broker", "flow"}
    assert {check.about for check in Check} == abouts
    assert all("?" in check.asks for check in Check)
