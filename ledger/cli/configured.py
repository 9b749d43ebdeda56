"""The configuration of a command: found and checked when the command needs it."""

import os

import click

from ledger.config.file import find_config, load_config
from ledger.config.mirror import MirrorConfig


def configuration(context: click.Context) -> MirrorConfig:
    """The checked configuration that `--config` or the environment names."""
    return load_config(find_config(context.find_root().obj, os.environ))
