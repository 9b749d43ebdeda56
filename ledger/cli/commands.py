"""Groups of commands that are imported when they are asked for."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class Commands(click.Group):
    """Imports a command when it is called: Spark, the Kafka client and others take longer than most answers.

    `places`: by command the module of this package and the name in it, as `module:name`.
    """

    def __init__(self, *args: Any, places: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of names."""
        return sorted({*super().list_commands(ctx), *self._places})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None: there is none."""
        if cmd_name not in self._places:
            return super().get_command(ctx, cmd_name)
        module, _, name = self._places[cmd_name].partition(":")
        found: click.Command = getattr(import_module(f"ledger.cli.{module}"), name)
        return found
