"""Commands that ask a flow's driver for something: `pause` to `reload`, and `stop`.

A request is a row of the ledger; the driver answers it with a receipt after the round under way. What will
happen goes to stderr, the operation id to stdout. Exit codes: 0 recorded (with --wait: done), or nothing to
do; 2 a topic or partition that the ledger does not know; 4 the driver refused; 5 refused as things stand, or
no receipt in time.
"""

from typing import Any

import click

from ledger.answers import requests
from ledger.answers.requests import await_end, await_receipt, request_stop
from ledger.cli.configured import command_context
from ledger.cli.options import (
    OFFSET,
    PARTITION,
    Parameter,
    partition_option,
    together,
    wait_option,
    why_options,
)
from ledger.cli.printing import put_operation, say
from ledger.facts.operations import Why
from ledger.facts.requests import AcceptForeign, Pause, Reload, Request, Resume, Resync, SkipTo

_topic = click.option("--topic", help="Only this source topic.")
_the_topic = click.option("--topic", required=True, help="The source topic.")
_the_partition = click.option("--partition", type=PARTITION, required=True, help="The partition.")
_offset = click.option("--offset", type=OFFSET, help="From this source offset; default the log start.")
_the_offset = click.option("--offset", type=OFFSET, required=True, help="The next source offset to copy.")


def _requesting(request: type[Request], words: str, *parameters: Parameter) -> click.Command:
    """The command that asks for it; its options are what the request names."""

    @click.command(name=request.kind.replace("_", "-"), help=words)
    @together(
        click.pass_context,
        *parameters,
        click.argument("flow"),
        why_options,
        wait_option("Wait for the receipt."),
    )
    def ask(context: click.Context, flow: str, why: Why, wait_s: float, **named: Any) -> None:
        command = command_context(context, why)
        requested = requests.request(command, flow, request(**named))
        if requested.operation_id is None:
            put_operation(None, requested.words, about=f"{flow}: ")
            return
        put_operation(requested.operation_id, f"{flow}: {requested.words}", requested.taken_up)
        if wait_s:
            receipt = await_receipt(command, flow, requested.operation_id, seconds=wait_s)
            say(f"{receipt.result}: {receipt.message}")

    return ask


pause = _requesting(Pause, "Copy nothing of FLOW, or of one topic of it, until resumed.", _topic)
resume = _requesting(Resume, "End a pause of FLOW, and let what stopped try again.", partition_option, _topic)
skip_to = _requesting(
    SkipTo,
    "Record the source offsets of a partition up to an offset as lost, and continue there.",
    *(_the_offset, _the_partition, _the_topic),
)
accept_foreign = _requesting(
    AcceptForeign,
    "Let stopped partitions continue after what the target holds, whoever wrote it.",
    *(partition_option, _the_topic),
)
resync = _requesting(
    Resync,
    "Copy again what the source holds, behind what the target holds.",
    *(_offset, partition_option, _the_topic),
)
reload = _requesting(Reload, "Let the driver of FLOW read its configuration file again and continue by it.")
COMMANDS = (pause, resume, skip_to, accept_foreign, resync, reload)


@click.command()
@click.argument("flow")
@wait_option("Wait until no driver of it is at work.")
@why_options
@click.pass_context
def stop(context: click.Context, flow: str, wait_s: float, why: Why) -> None:
    """Ask a running FLOW, wherever its driver is, to end after its round."""
    command = command_context(context, why)
    operation_id = request_stop(command, flow)
    say(f"{flow}: asked to stop; operation {operation_id}")
    if wait_s:
        say(await_end(command, flow, seconds=wait_s))
