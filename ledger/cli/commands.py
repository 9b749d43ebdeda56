"""Groups of commands that are imported when they are asked for."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from ledger.errors import UsageError

_EXTRAS = {
    "confluent_kafka": "sandbox",
    **dict.fromkeys(("jinja2", "prometheus_client", "starlette", "uvicorn"), "serve"),
}
"""By module of others the extra of this package that brings it."""


@contextmanager
def importing(what: str) -> Iterator[None]:
    """For a body that imports what `what` needs; raises `UsageError` where an extra is lacking that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (extra := _EXTRAS.get(error.name or "")) is None:
            raise
        needed = f"what `pip install 'mirror-ledger[{extra}]'` brings"
        raise UsageError(f"{what} needs {needed}; nothing was done") from error


Sections = Mapping[str, Mapping[str, tuple[str, str]]]
"""By what a person wants the commands for that: where each is (`module:name`, the module below `ledger.cli` unless it
says `ledger.`), and a line of help."""


class Commands(click.Group):
    """Imports a command when it is called: Spark, the Kafka client and others take longer than most answers."""

    def __init__(self, *args: Any, sections: Sections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._places = {name: place for section in sections.values() for name, (place, _) in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of names."""
        return sorted({*super().list_commands(ctx), *self._places})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # as click asks
        """Those of a section below its title, others below "Commands": a line each."""
        lines = {
            title: [(name, line) for name, (_, line) in one.items()] for title, one in self._sections.items()
        }
        for name, command in self.commands.items():
            lines.setdefault("Commands", []).append((name, command.get_short_help_str(limit=60)))
        for title, rows in lines.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None: there is none."""
        if cmd_name not in self._places:
            return super().get_command(ctx, cmd_name)
        module, _, name = self._places[cmd_name].partition(":")
        with importing(cmd_name):
            imported = import_module(module if module.startswith("ledger.") else f"ledger.cli.{module}")
        found: click.Command = getattr(imported, name)
        return found
