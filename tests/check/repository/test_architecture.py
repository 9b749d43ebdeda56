"""ARCHITECTURE.md names files that exist; those that it says to read first are few enough to be read."""

import re

from tests.support.checkout import CHECKOUT
from tests.support.documents import section

PAGE = (CHECKOUT / "ARCHITECTURE.md").read_text(encoding="utf-8")
KERNEL_LINES = 7_000
"""About two hours; the page says so."""


def test_every_file_exists() -> None:
    named = set(re.findall(r"`((?:ledger|queries|tests)/[\w./*]+)`", PAGE))
    assert len(named) > 15
    assert [name for name in sorted(named) if not list(CHECKOUT.glob(name))] == []


def test_the_kernel_can_be_read_in_two_hours() -> None:
    kernel = re.findall(r"`((?:ledger|queries)/[\w./]+)`", section(PAGE, "The kernel, in reading order"))
    lines = sum(len((CHECKOUT / name).read_text(encoding="utf-8").splitlines()) for name in kernel)
    assert (len(kernel), lines < KERNEL_LINES) == (17, True), lines
