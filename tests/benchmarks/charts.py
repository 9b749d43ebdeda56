"""Bars of what was measured, as SVG without scripts and without a reference to anything."""

from collections.abc import Mapping, Sequence
from math import log10
from xml.etree.ElementTree import tostring

import pygal

from ledger.reports.plots import COMMON, LOOK, element

_PER_LABEL, _PER_BAR = 10, 14
_WIDTH = 800
_FONT = 15
_COLORS = ("#0b5cad", "#9aa5b1", "#b3401a", "#2c7a4b")


def bars(
    title: str,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    by_powers: bool = False,
) -> str:
    """For each label a bar of each series, from above; None: nothing was measured.

    `by_powers`: on a logarithmic scale.
    """
    look = {name: _FONT if name.endswith("font_size") else value for name, value in LOOK.items()}
    chart = pygal.HorizontalBar(
        style=pygal.style.Style(
            **{**look, "background": "white", "opacity": "1", "colors": _COLORS, "title_font_size": _FONT + 3}
        ),
        title=title,
        height=150 + len(labels) * (_PER_LABEL + _PER_BAR * len(series)),
        logarithmic=by_powers,
        value_formatter=lambda value: f"{value:,.4g}" if value < 10 else f"{value:,.0f}",
        **{**COMMON, "width": _WIDTH, "margin_right": 60},
    )
    if by_powers:
        found = [value for values in series.values() for value in values if value]
        lowest = int(log10(min(found)))
        chart.zero = 10**lowest
        chart.y_labels = [10**power for power in range(lowest, int(log10(max(found))) + 1)]
    chart.x_labels = list(labels)[::-1]  # the first is drawn lowest
    for name, values in series.items():
        chart.add(name, list(values)[::-1])
    return tostring(element(chart, "bars"), encoding="unicode") + "\n"
