"""`offsets translate`: where committed offsets land on the target."""

import click
import pyarrow as pa
import pyarrow.compute as pc

from ledger.cli.answers.reading import as_of_option, opened, show
from ledger.cli.commands import Commands
from ledger.cli.printing import rendered, require_tables, wide_option
from ledger.domain.offsets.translation import UncommittedStatus
from ledger.errors import UnsafeError, UsageError
from ledger.reports.rendering import ACCEPTABLE, render_kafka_reset

_RESET = "kafka-reset"
_LARGEST_PARTITION = 2**31 - 1
_LARGEST_OFFSET = 2**63 - 1


@click.group(cls=Commands, places={"set": "acts.offset_setting:set_offsets"})
def offsets() -> None:
    """Offsets of one cluster in terms of another."""


@offsets.command()
@click.option("--flow", required=True, help="The flow whose map is used.")
@click.option("--group", "groups", multiple=True, help="Only this consumer group. Can be repeated.")
@click.option("--topic", help="Only this source topic.")
@click.option(
    "--partition", type=click.IntRange(0, _LARGEST_PARTITION), help="Only this partition of the topic."
)
@click.option(
    "--offset",
    type=click.IntRange(0, _LARGEST_OFFSET),
    help="With --topic and --partition: one source offset, whoever may have committed it.",
)
@as_of_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "csv", _RESET]),
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
@wide_option
@click.pass_context
def translate(
    context: click.Context,
    flow: str,
    groups: tuple[str, ...],
    topic: str | None,
    partition: int | None,
    offset: int | None,
    as_of: str | None,
    output: str,
    accepted: tuple[str, ...],
    wide: bool,
) -> None:
    """Translate committed offsets of groups, or one offset, from the ledger alone."""
    require_tables(output, wide=wide)
    if accepted and output != _RESET:
        raise UsageError("--accept is about the file of -o kafka-reset; nothing was translated")
    if offset is not None:
        _refuse_beside_an_offset(groups, topic, partition, output)
    _require_topic(topic, partition)
    ledger = opened(context, as_of)
    if topic is not None and partition is not None and offset is not None:
        one = ledger.translate_offset(flow, topic=topic, partition=partition, offset=offset)
        show(ledger, one.table, output, wide=wide)
        return
    found = ledger.translate_groups(flow, groups=groups, topic=topic, partition=partition)
    if output == _RESET:
        _show_reset(found.table, accepted)
    else:
        show(ledger, found.table, output, wide=wide)


def _refuse_beside_an_offset(
    groups: tuple[str, ...], topic: str | None, partition: int | None, output: str
) -> None:
    if groups:
        raise UsageError(
            "--offset and --group do not go together: one offset is translated whoever committed it; "
            "nothing was translated"
        )
    if topic is None or partition is None:
        raise UsageError("--offset needs --topic and --partition; nothing was translated")
    if output == _RESET:
        raise UsageError(
            "--offset and -o kafka-reset do not go together: a line of that file names a group; "
            "nothing was translated"
        )


def _require_topic(topic: str | None, partition: int | None) -> None:
    if partition is not None and topic is None:
        raise UsageError("--partition needs --topic; nothing was translated")


def _show_reset(answer: pa.Table, accepted: tuple[str, ...]) -> None:
    """The reset file on stdout; on stderr the topics that it is about and the rows left out, with exit code 4."""
    reset = render_kafka_reset(answer, accepted)
    click.echo(reset.csv, nl=False)
    click.echo(rendered(reset.topics, "table"), err=True, nl=False)
    if reset.left_out.num_rows:
        click.echo(rendered(reset.left_out, "table"), err=True, nl=False)
        raise UnsafeError(_why_left_out(reset.left_out))


def _why_left_out(left_out: pa.Table) -> str:
    uncommitted = pc.sum(pc.equal(left_out["status"], UncommittedStatus.NO_COMMIT)).as_py()
    commits = left_out.num_rows - uncommitted
    reasons = []
    if commits:
        reasons.append(
            f"{commits} commits have no target offset, or one that was not accepted by its status (--accept)"
        )
    if uncommitted:
        reasons.append(
            f"of {uncommitted} partitions that hold records, or may, the group has no commit: with "
            "auto.offset.reset = latest it skips them (--accept no_commit begins at the target's log start)"
        )
    return "; ".join(reasons) + "; they are not in the file"
