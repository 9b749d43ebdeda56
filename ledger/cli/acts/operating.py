"""Commands that ask a flow's driver for something: `pause`, `resume`, `skip-to`, `accept-foreign`, `resync`.

A request is a row of the ledger; the driver answers it with a receipt after the round under way. What will
happen goes to stderr, the operation id to stdout. Exit codes: 0 recorded (with --wait: done), or nothing to
do; 2 a topic or partition that the ledger does not know; 4 the driver refused; 5 refused as things stand, or
no receipt in time.
"""

from collections.abc import Callable
from typing import Any

import click

from ledger.answers import requests
from ledger.answers.requests import await_receipt
from ledger.cli.configured import command_context
from ledger.cli.partitions import OFFSET, PARTITION, partition_option
from ledger.cli.printing import put, say
from ledger.cli.why import why_options
from ledger.facts.operations import Why
from ledger.facts.requests import AcceptForeign, Pause, Request, Resume, Resync, SkipTo

_topic = click.option("--topic", help="Only this source topic.")
_the_topic = click.option("--topic", required=True, help="The source topic.")
_the_partition = click.option("--partition", type=PARTITION, required=True, help="The partition.")
_offset = click.option("--offset", type=OFFSET, help="From this source offset; default the log start.")
_the_offset = click.option("--offset", type=OFFSET, required=True, help="The next source offset to copy.")


def wait_option(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """How many seconds to wait for what was asked for; 0, the default: not at all."""
    return click.option(
        "--wait", "wait_s", type=click.FloatRange(min=0), default=0, metavar="SECONDS", help=what
    )


def _request(command: Callable[..., None]) -> Callable[..., None]:
    """What all requests take: the flow, why, and how long to wait for the receipt."""
    for parameter in (
        wait_option("Wait for the receipt."),
        why_options,
        click.argument("flow"),
    ):
        command = parameter(command)
    return click.pass_context(command)


@click.command()
@_topic
@_request
def pause(context: click.Context, flow: str, topic: str | None, **options: Any) -> None:
    """Copy nothing of FLOW, or of one topic of it, until resumed."""
    _ask(context, flow, Pause(topic=topic), **options)


@click.command()
@partition_option
@_topic
@_request
def resume(
    context: click.Context, flow: str, topic: str | None, partition: int | None, **options: Any
) -> None:
    """End a pause of FLOW, and let what stopped try again."""
    _ask(context, flow, Resume(topic=topic, partition=partition), **options)


@click.command(name="skip-to")
@_the_offset
@_the_partition
@_the_topic
@_request
def skip_to(
    context: click.Context, flow: str, topic: str, partition: int, offset: int, **options: Any
) -> None:
    """Record the source offsets of a partition up to an offset as lost, and continue there."""
    ask = SkipTo(topic=topic, partition=partition, offset=offset)
    _ask(context, flow, ask, **options)


@click.command(name="accept-foreign")
@partition_option
@_the_topic
@_request
def accept_foreign(
    context: click.Context, flow: str, topic: str, partition: int | None, **options: Any
) -> None:
    """Let stopped partitions continue after what the target holds, whoever wrote it."""
    _ask(context, flow, AcceptForeign(topic=topic, partition=partition), **options)


@click.command()
@_offset
@partition_option
@_the_topic
@_request
def resync(
    context: click.Context,
    flow: str,
    topic: str,
    partition: int | None,
    offset: int | None,
    **options: Any,
) -> None:
    """Copy again what the source holds, behind what the target holds."""
    ask = Resync(topic=topic, partition=partition, offset=offset)
    _ask(context, flow, ask, **options)


def _ask(context: click.Context, flow: str, ask: Request, *, why: Why, wait_s: float) -> None:
    command = command_context(context, why)
    requested = requests.request(command, flow, ask)
    if requested.operation_id is None:
        say(f"{flow}: nothing to do: {requested.words}; nothing was recorded")
        return
    say(f"{flow}: {requested.words}\n{requested.taken_up}")
    put(f"{requested.operation_id}\n")
    if wait_s:
        receipt = await_receipt(command, flow, requested.operation_id, seconds=wait_s)
        say(f"{receipt.result}: {receipt.message}")


COMMANDS = (pause, resume, skip_to, accept_foreign, resync)
