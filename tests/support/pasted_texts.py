"""What `mirror-ledger views` prints, without what a test does not read."""

import re
from collections.abc import Set

_CREATED = re.compile(r"^create or replace temporary view (\w+) as$", re.MULTILINE)


def without_views(text: str, left_out: Set[str]) -> str:
    """What was printed without these views: to make all takes longer than to answer most queries."""
    statements = re.split(r"(?<=;)\n", text)
    kept = [one for one in statements if left_out.isdisjoint(_CREATED.findall(one))]
    assert len(statements) - len(kept) == len(left_out)
    return "\n".join(kept)
