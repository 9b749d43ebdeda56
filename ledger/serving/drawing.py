"""Curves over time, as inline SVG: numbers become places; words stand beside the picture, where they are read."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ledger.words import counted, instant

WIDTH, HEIGHT = 600, 120
_HEADROOM = 1.08
_DASH = 4.0


@dataclass(frozen=True, slots=True)
class Point:
    """What there was at an instant; None: nobody knows."""

    at_ms: int
    value: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """A picture and its words. `lines`: places of a polyline each; `unknown`: from where to where nobody knows.

    `shortly`: when it begins and ends, as it fits below a small picture.
    """

    title: str
    lines: tuple[str, ...]
    unknown: tuple[tuple[float, float], ...]
    highest: str
    last: str
    begins: str
    ends: str
    shortly: tuple[str, str]
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def words(self) -> str:
        """For who cannot see it."""
        missing = "" if not self.unknown else ", unknown in parts"
        return f"{self.title} from {self.begins} to {self.ends}: at most {self.highest}, last {self.last}{missing}"


def curve(title: str, points: Sequence[Point], said: Callable[[float], str]) -> Curve | None:
    """Of two points or more; None: there are not so many. `said`: a value in words."""
    if len(points) < 2 or points[0].at_ms == points[-1].at_ms:
        return None
    known = [one.value for one in points if one.value is not None]
    top = max(known, default=0.0) * _HEADROOM or 1.0
    first, last = points[0].at_ms, points[-1].at_ms

    def x(at_ms: int) -> float:
        return round((at_ms - first) / (last - first) * WIDTH, 1)

    def y(value: float) -> float:
        return round(HEIGHT - value / top * (HEIGHT - 2) - 1, 1)

    lines = tuple(
        _mark(x(run[0].at_ms), y(run[0].value or 0.0))
        if len(run) == 1
        else " ".join(f"{x(one.at_ms)},{y(one.value or 0.0)}" for one in run)
        for run in _runs(points, is_known=True)
    )
    newest = points[-1].value
    return Curve(
        title,
        lines,
        tuple(_stretches(points, x)),
        highest=said(max(known)) if known else "unknown",
        last="unknown" if newest is None else said(newest),
        begins=instant(first),
        ends=instant(last),
        shortly=(_shortly(first), _shortly(last)),
    )


def _mark(x: float, y: float) -> str:
    """A dash: a line of one point would not be seen."""
    return f"{max(0.0, x - _DASH):g},{y} {min(float(WIDTH), x + _DASH):g},{y}"


def _shortly(at_ms: int) -> str:
    """Month, day and minute, UTC."""
    return f"{instant(at_ms)[5:16]}Z"


def _runs(points: Sequence[Point], *, is_known: bool) -> Iterator[list[Point]]:
    run: list[Point] = []
    for one in points:
        if (one.value is not None) is is_known:
            run.append(one)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _stretches(points: Sequence[Point], x: Callable[[int], float]) -> Iterator[tuple[float, float]]:
    """Each from the point before the first that is unknown to the one behind the last."""
    at = {one.at_ms: index for index, one in enumerate(points)}
    for run in _runs(points, is_known=False):
        begins = points[max(0, at[run[0].at_ms] - 1)].at_ms
        ends = points[min(len(points) - 1, at[run[-1].at_ms] + 1)].at_ms
        yield x(begins), round(max(1.0, x(ends) - x(begins)), 1)


def records(value: float) -> str:
    """A count of records in words."""
    return counted(int(value), "record")
