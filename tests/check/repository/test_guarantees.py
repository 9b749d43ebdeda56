"""The table of faults in GUARANTEES.md and the tests that produce them say the same."""

import re

from tests.support.checkout import CHECKOUT

GUARANTEES = CHECKOUT / "ledger" / "GUARANTEES.md"
PROMISED = {*range(1, 44), 73}
SIMULATED = "tests/simulation"


def table() -> dict[int, set[str]]:
    """Fault number to how it is shown."""
    rows = re.findall(r"^\| (\d+) \|[^|]+\|.+\| ([a-z, ]+) \|$", GUARANTEES.read_text(encoding="utf-8"), re.M)
    return {int(number): set(shown.split(", ")) for number, shown in rows}


def marked() -> dict[int, set[str]]:
    """Fault number to the folders whose tests carry it: simulated ones, and real ones."""
    found: dict[int, set[str]] = {}
    for file in sorted((CHECKOUT / "tests").rglob("test_*.py")):
        how = "simulated" if str(file.relative_to(CHECKOUT)).startswith(SIMULATED) else "real"
        for numbers in re.findall(r"mark\.fault\(([0-9, ]+)\)", file.read_text(encoding="utf-8")):
            for number in numbers.split(","):
                found.setdefault(int(number), set()).add(how)
    return found


def test_every_fault_is_in_the_table() -> None:
    assert sorted(PROMISED - table().keys()) == []


def test_the_table_claims_what_tests_show_and_nothing_else() -> None:
    shown = marked()
    assert {n: (claimed, shown.get(n)) for n, claimed in table().items() if claimed != shown.get(n)} == {}
    assert sorted(shown.keys() - table().keys()) == []


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`((?:tests|ledger)/[\w./]+)`", GUARANTEES.read_text(encoding="utf-8")))
    assert len(named) > 10
    assert [name for name in sorted(named) if not (CHECKOUT / name).exists()] == []
