"""Options of several commands about a change of direction, and what an operator chose by them."""

from typing import Any

import click

from ledger.changeover.plans import Choices, FenceChoice
from ledger.cli.options import together

scope_options = together(
    click.option("--topic", "topics", multiple=True, help="Only this topic of the target. Can be repeated."),
    click.option(
        "--leave-out",
        "left_out",
        multiple=True,
        metavar="TOPIC",
        help="All topics but this one of the target; groups get no place there. Can be repeated.",
    ),
    click.option("--group", "groups", multiple=True, help="Only this group moves. Can be repeated."),
)
fence_option = click.option(
    "--fence",
    type=click.Choice([str(one) for one in FenceChoice]),
    default=str(FenceChoice.CLOSED),
    show_default=True,
    help="How producers are kept from the source.",
)


def chosen(**options: Any) -> Choices:
    """By the names of choices; what can be repeated in order, and once. No topic, or no group: all."""
    found: dict[str, Any] = {
        name: tuple(sorted(set(value))) if isinstance(value, tuple) else value
        for name, value in options.items()
    }
    found |= {name: found.get(name) or None for name in ("topics", "groups")}
    fence = FenceChoice(found.pop("fence", FenceChoice.CLOSED))
    return Choices(fence=fence, **found)
