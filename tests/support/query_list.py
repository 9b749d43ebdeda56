"""The list of all queries in `queries/README.md`, made of their headers.

    python -m tests.support.query_list

writes it anew; a test says when that is due.
"""

import textwrap
from collections.abc import Iterator

from ledger.store import catalog
from tests.support.checkout import CHECKOUT

README = CHECKOUT / "queries" / "README.md"
HEADING = "## All queries\n"
_WIDTH = 120


def listed() -> str:
    """The section: a line for each query, with what it answers and its parameters; audits by themselves."""
    return "\n".join([HEADING, *_lines(is_audit=False), "", "Audits:", "", *_lines(is_audit=True), ""])


def _lines(*, is_audit: bool) -> Iterator[str]:
    for query in catalog.queries().values():
        if query.is_audit is is_audit:
            stated = f" Parameters: {query.stated_parameters}." if query.params else ""
            yield from textwrap.wrap(
                f"- `{query.name}`: {query.answers}{stated}",
                width=_WIDTH,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )


def kept() -> str:
    """The README up to the section, which is its last."""
    return README.read_text(encoding="utf-8").partition(HEADING)[0]


if __name__ == "__main__":
    README.write_text(kept() + listed(), encoding="utf-8")
