"""Plots as SVG inside a page: the same text for the same values, without scripts and without a reference to anything.

pygal draws them. What it adds to each is left out: the day on which it was drawn, a script, a random name.
"""

import sys
from collections.abc import Iterator
from xml.etree.ElementTree import Element, tostring

import pygal
from pygal.etree import etree
from pygal.graph.graph import Graph
from pygal.style import Style

from ledger.reports.documents import OverTime, Plot, Span, Timeline
from ledger.words import duration, instant, shown

# It looks for plugins by an interface that Python has given up, at each import of anybody.
sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, pygal.PluginImportFixer)]

_WIDTH, _HEIGHT = 900, 260
_BAR_HEIGHT = 26
_MOST_LABEL = 34
_INK = "#1b2733"
_LINES = ("#0b5cad", "#b3401a", "#2c7a4b", "#6b4ea0", "#8a6d00", "#0f7c86")
_SHADE = "#c9ced6"
LOOK = {
    "background": "transparent",
    "plot_background": "transparent",
    "foreground": _INK,
    "foreground_strong": _INK,
    "foreground_subtle": "#5b6773",
    "guide_stroke_color": "#d8dde3",
    "major_guide_stroke_color": "#d8dde3",
    "font_family": "sans-serif",
    "label_font_size": 11,
    "major_label_font_size": 11,
    "legend_font_size": 12,
    "value_font_size": 11,
    "no_data_font_size": 16,
    "opacity": ".35",
    "stroke_opacity": "1",
    "stroke_width": "2",
    "transition": "0s",
}
COMMON = {
    "width": _WIDTH,
    "js": (),
    "legend_at_bottom": True,
    "explicit_size": False,
    "margin": 8,
    "margin_right": 48,  # half of the last label
    "no_data_text": "nothing is known",
    "show_dots": False,
    "pretty_print": False,
}


def svg(plot: Plot) -> str:
    """The element `svg`, to stand in HTML. `plot.name` is its id: one of a page is named so."""
    chart = _over_time(plot) if isinstance(plot, OverTime) else _timeline(plot)
    root = element(chart, plot.name)
    root.attrib["role"] = "img"
    root.attrib["aria-label"] = shown(plot.caption)
    text: str = tostring(root, encoding="unicode")
    return text


def _over_time(plot: OverTime) -> "pygal.XY":
    first, last = _bounds(plot)
    top = max((point[1] for one in plot.series if (point := one.highest) is not None), default=0.0)
    colors = [_SHADE] * bool(plot.spans) + list(_LINES)
    chart = pygal.XY(
        style=Style(colors=tuple(colors), **LOOK),
        height=_HEIGHT,
        x_value_formatter=_instant,
        y_title=plot.unit,
        x_labels=[first + (last - first) * number // 4 for number in range(5)] if last > first else [first],
        range=(0, top or 1),
        xrange=(first, last) if last > first else (first, first + 1),
        allow_interruptions=True,
        value_formatter=_number,
        show_legend=bool(plot.spans) or len(plot.series) > 1,
        **COMMON,
    )
    if plot.spans:
        names = sorted({span.name for span in plot.spans})
        chart.add("; ".join(names), list(_shaded(plot.spans, top or 1)), fill=True, stroke_style={"width": 0})
    for one in plot.series:
        chart.add(shown(one.name), [(at_ms, value) for at_ms, value in one.points])
    return chart


def _bounds(plot: OverTime) -> tuple[int, int]:
    times = [at_ms for one in plot.series for at_ms, _ in one.points]
    return min(times, default=0), max(times, default=0)


def _shaded(spans: tuple[Span, ...], top: float) -> Iterator[tuple[int, float]]:
    """A line that is up within the stretches; what is below it is filled."""
    for span in spans:
        yield from ((span.start_ms, 0), (span.start_ms, top), (span.end_ms, top), (span.end_ms, 0))


def _timeline(plot: Timeline) -> "pygal.HorizontalStackedBar":
    chart = pygal.HorizontalStackedBar(
        style=Style(colors=("transparent", _LINES[0]), **{**LOOK, "opacity": "1"}),
        height=90 + _BAR_HEIGHT * max(len(plot.spans), 1),
        x_title="seconds from the beginning",
        truncate_label=_MOST_LABEL,
        value_formatter=duration,
        show_legend=False,
        **COMMON,
    )
    spans = plot.spans[::-1]  # the first is drawn lowest
    chart.x_labels = [shown(span.name) for span in spans]
    chart.add("until it began", [(span.start_ms - plot.start_ms) / 1000 for span in spans])
    chart.add("took", [(span.end_ms - span.start_ms) / 1000 for span in spans])
    return chart


def _instant(at_ms: float) -> str:
    """Month, day and time."""
    return instant(round(at_ms))[5:19]


def _number(value: object) -> str:
    value = value[1] if isinstance(value, tuple) else value
    return f"{value:,.0f}" if isinstance(value, int | float) and value >= 10 else f"{value:,g}"


def element(chart: Graph, name: str) -> Element:
    """The element `svg` of a chart, with that id, and without comments, which are dated, and scripts."""
    etree.to_etree()  # pygal takes lxml where something else has installed it, which writes other bytes
    chart.uuid = name
    root: Element = chart.render_tree()
    for parent in list(root.iter()):
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.endswith("script"):
                parent.remove(child)
    return root
