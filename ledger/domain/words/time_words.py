"""Instants and durations as people read them."""

from datetime import UTC, datetime

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def instant(at_ms: int) -> str:
    """In UTC, to the second, as `--as-of` takes it: `2026-11-22 03:12:40Z`."""
    return datetime.fromtimestamp(at_ms // 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def elapsed(seconds: float) -> str:
    """What a step took, in a column of such times: `  12.3 s`. Two readings of a clock may be in the wrong order."""
    return f"{max(seconds, 0.0):6.1f} s"


def duration(seconds: float) -> str:
    """The two largest units that it has: `2 min 10 s`, `3 h 5 min`, `12 s`; less than a second in full."""
    if seconds < 1:
        return f"{max(seconds, 0.0):.3f} s" if seconds > 0 else "0 s"
    left = int(seconds)
    words: list[str] = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if words or count:
            words.append(f"{count} {unit}" if count else "")
        if len(words) == 2:
            break
    return " ".join(word for word in words if word)
