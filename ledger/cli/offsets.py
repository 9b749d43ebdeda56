"""`offsets translate`: where committed offsets land on the target."""

import click
import pyarrow as pa

from ledger import app
from ledger.cli.configured import configuration
from ledger.cli.reading import as_of_option, show
from ledger.errors import UnsafeError, UsageError
from ledger.reports.rendering import ACCEPTABLE, render_kafka_reset, render_table


@click.group()
def offsets() -> None:
    """Offsets of one cluster in terms of another."""


@offsets.command()
@click.option("--flow", required=True, help="The flow whose map is used.")
@click.option("--group", help="Only this consumer group.")
@click.option("--topic", help="With --partition and --offset: translate one source offset.")
@click.option("--partition", type=click.IntRange(min=0))
@click.option("--offset", type=click.IntRange(min=0))
@as_of_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "csv", "kafka-reset"]),
    default="table",
    show_default=True,
)
@click.option(
    "--accept",
    "accepted",
    type=click.Choice([str(status) for status in ACCEPTABLE]),
    multiple=True,
    help="With kafka-reset: a status that the file may hold all the same. Can be repeated.",
)
@click.pass_context
def translate(
    context: click.Context,
    flow: str,
    group: str | None,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    as_of: str | None,
    output: str,
    accepted: tuple[str, ...],
) -> None:
    """Translate committed offsets of groups, or one offset, from the ledger alone."""
    config = configuration(context)
    single = (topic, partition, offset)
    if any(part is not None for part in single) and (None in single or group is not None):
        raise UsageError(
            "one offset needs --topic, --partition and --offset, and no --group; nothing was translated"
        )
    if accepted and output != "kafka-reset":
        raise UsageError("--accept is about the file of -o kafka-reset; nothing was translated")
    at = app.snapshot(config, as_of)
    app.require_flow(config, at, flow)
    if topic is not None and partition is not None and offset is not None:
        answer = app.translate_offset(at, flow, topic=topic, partition=partition, offset=offset)
    else:
        answer = app.translate_groups(at, flow, group=group)
    if output == "kafka-reset":
        _show_reset(answer, accepted)
    else:
        show(at, answer, output)


def _show_reset(answer: pa.Table, accepted: tuple[str, ...]) -> None:
    """The reset file on stdout; on stderr the topics that it is about and the rows left out, with exit code 4."""
    reset = render_kafka_reset(answer, accepted)
    click.echo(reset.csv, nl=False)
    click.echo(render_table(reset.topics), err=True, nl=False)
    if reset.left_out.num_rows:
        click.echo(render_table(reset.left_out), err=True, nl=False)
        raise UnsafeError(
            f"{reset.left_out.num_rows} commits have no target offset, or one that was not accepted by its "
            "status (--accept); they are not in the file"
        )
