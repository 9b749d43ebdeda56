"""Which records a flow leaves out, by key, header or time. Pure: a record's fields in, a verdict out.

Patterns are regular expressions that match a whole key or a whole header value, read as UTF-8 text. A key
or value that is absent, or that is not UTF-8, matches no pattern: `exclude_keys` does not leave it out, and
`include_keys` does not take it in.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

Header = tuple[bytes, bytes | None]
"""Name and value of a header, as they are in the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """A record is kept when every rule given keeps it; the default keeps all.

    `include_keys`: only records whose key matches one of them. `exclude_keys`: none whose key matches one.
    `exclude_headers`: name and pattern; none that has a header of that name whose value matches.
    `from_ms`, `until_ms`: only timestamps in `[from_ms, until_ms)`, as readers of the source see them; a
    record without one has -1.
    """

    include_keys: tuple[str, ...] = ()
    exclude_keys: tuple[str, ...] = ()
    exclude_headers: tuple[tuple[str, str], ...] = ()
    from_ms: int | None = None
    until_ms: int | None = None

    @property
    def keeps_all(self) -> bool:
        """Whether no record has to be read."""
        return self == KEEP_ALL

    def keeps(self, *, key: bytes | None, headers: Sequence[Header], timestamp_ms: int) -> bool:
        return self._keeps_time(timestamp_ms) and self._keeps_key(key) and self._keeps_headers(headers)

    def _keeps_time(self, timestamp_ms: int) -> bool:
        is_early = self.from_ms is not None and timestamp_ms < self.from_ms
        is_late = self.until_ms is not None and timestamp_ms >= self.until_ms
        return not is_early and not is_late

    def _keeps_key(self, key: bytes | None) -> bool:
        is_included = not self.include_keys or any(_matches(pattern, key) for pattern in self.include_keys)
        return is_included and not any(_matches(pattern, key) for pattern in self.exclude_keys)

    def _keeps_headers(self, headers: Sequence[Header]) -> bool:
        return not any(
            name == excluded.encode() and _matches(pattern, value)
            for excluded, pattern in self.exclude_headers
            for name, value in headers
        )


KEEP_ALL = RecordFilter()


def _matches(pattern: str, content: bytes | None) -> bool:
    if content is None:
        return False
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return re.fullmatch(pattern, text, re.DOTALL) is not None
