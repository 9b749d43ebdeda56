"""The list of faults in GUARANTEES.md and the tests that produce them say the same."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkout import CHECKOUT
from tests.support.documents import definitions, section

GUARANTEES = CHECKOUT / "ledger" / "GUARANTEES.md"
PROMISED = {*range(1, 44), 73}
SUITES = {
    "tests/check/simulation/": "simulated",
    "tests/check/": "real",
    "tests/real/": "real",
    "tests/soak/": "soak",  # runs only when asked for: what it alone produces is not shown
}
"""Where a test lies to how it shows a fault; the first that applies."""
MARK = re.compile(r"mark\.fault\(([0-9, ]+)\)")
"""On a test, on all tests of a module, and as the `marks` of one of its parameters."""


def listed() -> dict[int, set[str]]:
    """Fault number to how it is shown."""
    faults = definitions(section(GUARANTEES.read_text(encoding="utf-8"), "Faults"))
    return {int(number): shown_in(fault.text) for number, fault in faults.items()}


def shown_in(fault: str) -> set[str]:
    """How a fault is shown: in brackets before what happens."""
    shown = re.match(r"[^:]+ \(([a-z, ]+)\): ", fault)
    assert shown, fault
    return set(shown[1].split(", "))


def marks_in(text: str) -> Iterator[int]:
    for numbers in MARK.findall(text):
        yield from map(int, numbers.split(","))


def how(file: Path) -> str:
    name = str(file.relative_to(CHECKOUT))
    return next(how for folder, how in SUITES.items() if name.startswith(folder))


def produced() -> dict[int, set[str]]:
    """Fault number to how tests produce it, in soak too."""
    found: dict[int, set[str]] = {}
    for file in sorted((CHECKOUT / "tests").rglob("test_*.py")):
        for number in marks_in(file.read_text(encoding="utf-8")):
            found.setdefault(number, set()).add(how(file))
    return found


FAULT = "pytest.mark.fault"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (f"@{FAULT}(3)\ndef test_it() -> None:", [3]),
        (f"@{FAULT}(34, 42)\n", [34, 42]),
        (f"pytest.param(Policy.STOP, marks={FAULT}(10)),\n", [10]),
        (f"pytestmark = {FAULT}(1)\n", [1]),
        ("@pytest.mark.timeout(60)\n", []),
    ],
)
def test_marks_are_found_wherever_they_stand(text: str, numbers: list[int]) -> None:
    assert list(marks_in(text)) == numbers


def test_every_fault_is_in_the_list() -> None:
    assert sorted(PROMISED - listed().keys()) == []


def test_the_list_claims_what_tests_show_and_nothing_else() -> None:
    shown = {number: ways - {"soak"} for number, ways in produced().items()}
    assert {n: (claimed, shown.get(n)) for n, claimed in listed().items() if claimed != shown.get(n)} == {}
    assert sorted(shown.keys() - listed().keys()) == []


def test_no_fault_is_claimed_as_real_that_is_produced_in_soak_alone() -> None:
    claimed = {number for number, ways in listed().items() if "real" in ways}
    in_soak_alone = {number for number, ways in produced().items() if "soak" in ways and "real" not in ways}
    assert sorted(claimed & in_soak_alone) == []


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`((?:tests|ledger)/[\w./]+)`", GUARANTEES.read_text(encoding="utf-8")))
    assert len(named) > 10
    assert [name for name in sorted(named) if not (CHECKOUT / name).exists()] == []
