"""A forecast of a plan as `plan` records it: of a change that loses nothing and reads nothing again."""

from typing import Any

from ledger.changeover.losses import loss_figures
from ledger.changeover.not_followed import NotFollowed, Part
from ledger.offsets.sheets import repeat_forecast


def forecast(**changed: Any) -> dict[str, Any]:
    """All keys that every forecast has."""
    return {
        **loss_figures([]),
        **repeat_forecast([], None),
        "groups": 0,
        "groups_without_place": 0,
        "groups_ahead": 0,
        "groups_at_earlier_commits": 0,
        "downtime": {"seconds": 2.0, "steps": {"fence": 2.0}, "measured": [], "partitions": 1, "groups": 0},
        "not_followed": [NotFollowed(part=Part.SETTINGS, changes=0).figures(1)],
        **changed,
    }
