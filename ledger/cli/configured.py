"""The configuration of a command: found and checked when the command needs it, alone or with all that it works with."""

import os
from typing import TYPE_CHECKING

import click

from ledger.cli.logs import log_to_stderr
from ledger.cli.printing import say
from ledger.config.file import find_config, load_config
from ledger.config.mirror import MirrorConfig

if TYPE_CHECKING:
    from ledger.context import Context
    from ledger.facts.operations import Why


def configuration(context: click.Context) -> MirrorConfig:
    """The checked configuration that `--config` or the environment names."""
    return load_config(find_config(context.find_root().obj, os.environ))


def configuration_to_connect_by(context: click.Context) -> MirrorConfig:
    """The same, where a process begins that is to run for long: what of it has no effect is said on stderr.

    Its log is written as the configuration has it, from here on.
    """
    config = configuration(context)
    log_to_stderr(config.logs.format, config.logs.level)
    for cluster in config.clusters.values():
        if idle := cluster.without_effect:
            names = ", ".join(idle)
            say(
                f"warning: clusters.{cluster.name}: {names}: no effect, for the mirror's connections are its own"
            )
    return config


def command_context(context: click.Context, why: "Why | None" = None) -> "Context":
    """What a command works with that may ask clusters, or record something; it is closed when the command ends.

    Raises `PreconditionError` where a reason is given for what would be recorded, and a copy of a ledger lies there:
    before anybody is asked anything.
    """
    from ledger.context import Context  # it brings the Kafka client, and most answers need none
    from ledger.store.ledger_copy import require_no_copy

    config = configuration(context)
    if why is not None and why.reason is not None:
        require_no_copy(config.ledger.path)
    return context.with_resource(Context(config, why))
