"""`offsets translate`: where committed offsets land on the target."""

from collections.abc import Iterator

import click
import pyarrow as pa

from ledger.answers.ledger import Ledger
from ledger.cli.answers.reading import opened
from ledger.cli.commands import Commands
from ledger.cli.options import (
    OFFSET,
    as_of_option,
    output_option,
    partition_option,
    show_cut_option,
    wide_option,
)
from ledger.cli.printing import Form, put, rendered, require_tables, say, say_cut
from ledger.errors import UnsafeError, UsageError
from ledger.offsets.between_clusters import asked_way, untranslated_groups_at
from ledger.offsets.rendering import KafkaReset, render_kafka_reset
from ledger.offsets.restored import require_read
from ledger.offsets.setting import ACCEPTABLE, NOT_COPIED, NOT_RECORDED
from ledger.offsets.statuses import TranslationStatus
from ledger.store.answers import MISSING_ROWS, require_complete

_RESET = "kafka-reset"


@click.group(
    cls=Commands,
    sections={
        "Commands": {"set": ("acts.offset_setting:set_offsets", "Commit at --to where groups continue.")}
    },
)
def offsets() -> None:
    """Offsets of one cluster in terms of another."""


@offsets.command()
@click.option("--from", "from_cluster", help="The cluster where groups have committed.")
@click.option(
    "--to", "to_cluster", help="The cluster where they shall continue, by all flows between the two."
)
@click.option("--flow", help="Only what this flow copies, from its source to its target.")
@click.option("--group", "groups", multiple=True, help="Only this consumer group. Can be repeated.")
@click.option("--topic", help="Only this source topic.")
@partition_option
@click.option(
    "--offset",
    type=OFFSET,
    help="With --topic and --partition: one source offset, whoever may have committed it.",
)
@click.option(
    "--at",
    "at_time",
    help="A time; beside each offset what its group skips and repeats that continues by time.",
)
@as_of_option
@show_cut_option
@output_option("json", "csv", _RESET)
@click.option(
    "--accept",
    "accepted",
    type=click.Choice([str(status) for status in (*ACCEPTABLE, NOT_COPIED, MISSING_ROWS, NOT_RECORDED)]),
    multiple=True,
    help="With kafka-reset: a status that the file may hold all the same. Can be repeated.",
)
@wide_option
@click.pass_context
def translate(
    context: click.Context,
    from_cluster: str | None,
    to_cluster: str | None,
    flow: str | None,
    groups: tuple[str, ...],
    topic: str | None,
    partition: int | None,
    offset: int | None,
    at_time: str | None,
    as_of: str | None,
    output: str,
    accepted: tuple[str, ...],
    wide: bool,
) -> None:
    """Translate committed offsets of groups, or one offset, from the ledger alone."""
    require_tables(output, wide=wide)
    if accepted and output != _RESET:
        raise UsageError("--accept is about the file of -o kafka-reset; nothing was translated")
    _require_fitting(groups, topic, partition, offset, output)
    ledger = opened(context, as_of)
    way = asked_way(ledger.config, ledger.snapshot, from_cluster, to_cluster, flow)
    if output == _RESET:
        require_complete(ledger.snapshot, accepted, undone="no file was made")
        require_read(ledger.snapshot, way.source, accepted, undone="no file was made")
    if offset is None:
        _say_untranslated(untranslated_groups_at(ledger.snapshot, way.source, groups))
        _say_old(ledger, way.source)
    found = ledger.translate(
        way.source,
        way.target,
        flow=flow,
        groups=groups,
        topic=topic,
        partition=partition,
        offset=offset,
        at=at_time,
    ).table
    if output == _RESET:
        _show_reset(found, accepted)
    else:
        Form(output, wide).put(found)
        say_cut(lambda: ledger.cut, output)


def _say_untranslated(found: pa.Table) -> None:
    """On stderr: whoever moves the groups of the answer would think that there are no others."""
    if found.num_rows:
        say("groups that commit no offsets (share_group), or whose last commits are not known:")
        _say_table(found)


def _say_old(ledger: Ledger, cluster: str) -> None:
    """On stderr, whatever is printed: an answer is as old as the commits that it goes by."""
    if (words := ledger.old_commits(cluster)) is not None:
        say(words)


def _require_fitting(
    groups: tuple[str, ...], topic: str | None, partition: int | None, offset: int | None, output: str
) -> None:
    if offset is None:
        if partition is not None and topic is None:
            raise UsageError("--partition needs --topic; nothing was translated")
        return
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


def _show_reset(answer: pa.Table, accepted: tuple[str, ...]) -> None:
    """The reset file on stdout; on stderr the topics that it is about and the rows left out, with exit code 4."""
    reset = render_kafka_reset(answer, accepted)
    put(reset.csv)
    _say_table(reset.topics)
    left_out = [rows for rows in (reset.left_out, reset.unwritable) if rows.num_rows]
    for rows in left_out:
        _say_table(rows)
    if left_out:
        raise UnsafeError(f"{'; '.join(_why_left_out(reset))}; they are not in the file")


def _say_table(rows: pa.Table) -> None:
    say(*rendered(rows, "table").splitlines())


def _why_left_out(reset: KafkaReset) -> Iterator[str]:
    uncommitted = reset.left_out["status"].to_pylist().count(TranslationStatus.NO_COMMIT)
    if commits := reset.left_out.num_rows - uncommitted:
        yield f"{commits} commits have no target offset, or one that was not accepted by its status (--accept)"
    if uncommitted:
        yield (
            f"of {uncommitted} partitions that hold records, or may, the group has no commit: with "
            "auto.offset.reset = latest it skips them (--accept no_commit begins at the target's log start)"
        )
    if reset.unwritable.num_rows:
        yield (
            f"{reset.unwritable.num_rows} offsets cannot be given to Kafka's tool: the group's name is empty, or has a "
            "line feed or NUL in it, or Kafka has no such topic, partition or offset (mirror-ledger offsets set "
            "takes any group)"
        )
