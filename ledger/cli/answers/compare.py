"""`compare`: whether both sides of a flow hold the same, by what is recorded or by reading both."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ledger.cli.configured import command_context
from ledger.cli.options import show_cut_option, table_options
from ledger.cli.printing import Form, say, say_cut
from ledger.comparing.flow import Asked, Compared, Comparer, Verdict, compare_flow, in_turn
from ledger.errors import DifferenceError, UnsafeError, UsageError
from ledger.words import counted

_COLUMNS = (
    "source_topic string, partition bigint, target_topic string, verdict string, mapped bigint, checksummed bigint, "
    "same bigint, differing bigint, first_source_offset bigint, first_target_offset bigint, what string, keys bigint, "
    "keys_left_out bigint, "
    "expired bigint, source_only bigint, target_only bigint, others bigint, unread string"
)
_NAMED = "source_topic string, partition bigint, status string, cause string, ranges bigint, offsets bigint"


def compare_command(comparer: Comparer) -> click.Command:
    """The command; `comparer`: where partitions are read."""

    @click.command()
    @click.argument("flow")
    @click.option("--read", "is_read", is_flag=True, help="Read both sides; else it is said what was sent.")
    @click.option("--topic", "topics", multiple=True, help="Only this topic of the source. Can be repeated.")
    @click.option(
        "--sample",
        type=click.IntRange(1, 1_000_000),
        help="Read so many stretches of a thousand offsets of each partition, evenly apart; default all of it.",
    )
    @click.option(
        "--rate",
        type=click.FloatRange(min=0, min_open=True),
        metavar="MB",
        help="Megabytes to read in a second at most, of both sides together.",
    )
    @click.option(
        "--progress",
        "file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="File in which it is noted how far it is: given again, it continues there.",
    )
    @show_cut_option
    @table_options
    @click.pass_context
    def compare(
        context: click.Context,
        flow: str,
        is_read: bool,
        topics: tuple[str, ...],
        sample: int | None,
        rate: float | None,
        file: Path | None,
        form: Form,
    ) -> None:
        """Whether both sides of FLOW hold the same records. Exit with 1 where they differ, 4 where not all was read."""
        if not is_read and (sample is not None or rate is not None or file is not None):
            raise UsageError(
                "--sample, --rate and --progress are about reading: give --read; nothing was read"
            )
        asked = Asked(
            topics=topics, stretches=sample, bytes_per_second=None if rate is None else rate * 1e6, file=file
        )
        done = compare_flow(
            command_context(context), flow, asked, is_read=is_read, say=say, comparer=comparer
        )
        form.put_rows(map(_row, done.partitions), _COLUMNS)
        if named := _by_cause(done.named):
            say("differences that have a name, as they are recorded:")
            form.say_rows(named, _NAMED)
        say_cut(lambda: done.cut, form.output)
        differing = [one for one in done.partitions if one.verdict is Verdict.DIFFERS]
        if differing:
            raise DifferenceError(
                f"{counted(len(differing), 'partition')} of {len(done.partitions)} differ, first {_first(differing[0])}"
            )
        if done.verdict is not Verdict.EQUAL:
            raise UnsafeError(
                "whether both sides hold the same is unknown: not everything was read"
                + ("; give --read" if not is_read else ", the last column says why")
            )

    return compare


compare = compare_command(in_turn)


def _row(one: Compared) -> dict[str, object]:
    first, is_known = one.found.first, one.read_to is not None or one.found.bytes > 0
    return {
        "source_topic": one.source_topic,
        "partition": one.partition,
        "target_topic": one.target_topic,
        "verdict": str(one.verdict),
        "mapped": one.mapped,
        "checksummed": one.checksummed,
        "same": one.found.records if is_known else None,
        "differing": one.found.differing if is_known else None,
        "first_source_offset": None if first is None else first.source_offset,
        "first_target_offset": None if first is None else first.target_offset,
        "what": None if first is None else first.words,
        "keys": one.keys,
        "keys_left_out": one.keys_left_out,
        "expired": one.expired if is_known else None,
        "source_only": one.found.source_only if is_known else None,
        "target_only": one.found.target_only if is_known else None,
        "others": one.found.others if is_known else None,
        "unread": one.why,
    }


def _first(one: Compared) -> str:
    first = one.found.first
    assert first is not None, "it differs"
    return (
        f"{one.source_topic} partition {one.partition} at source offset {first.source_offset}, target offset "
        f"{first.target_offset}: {first.words}"
    )


def _by_cause(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    found: dict[tuple[object, ...], list[int]] = {}
    for row in rows:
        key = row["source_topic"], row["source_partition"], row["status"], row["cause"]
        counts = found.setdefault(key, [0, 0])
        counts[0] += 1
        counts[1] += row["offsets"] or 0
    names = ("source_topic", "partition", "status", "cause")
    return [
        {**dict(zip(names, key, strict=True)), "ranges": counts[0], "offsets": counts[1]}
        for key, counts in found.items()
    ]
