"""Bars of what was measured, as SVG without scripts and without a reference to anything."""

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import tostring

import pygal

from ledger.reports.plots import COMMON, LOOK, element

_PER_LABEL, _PER_BAR = 14, 11
_WIDTH = 1_000


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
    chart = pygal.HorizontalBar(
        style=pygal.style.Style(**{**LOOK, "background": "white", "opacity": "1"}),
        title=title,
        height=120 + len(labels) * (_PER_LABEL + _PER_BAR * len(series)),
        logarithmic=by_powers,
        **{**COMMON, "width": _WIDTH},
    )
    chart.x_labels = list(labels)[::-1]  # the first is drawn lowest
    for name, values in list(series.items())[::-1]:
        chart.add(name, list(values)[::-1])
    return tostring(element(chart, "bars"), encoding="unicode") + "\n"
