"""`import`: a configuration of MirrorMaker 2 in this program's keys, and what both select of clusters that run."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from ledger.cli.options import wide_option
from ledger.cli.printing import Form, put, require_tables, say
from ledger.config.file import checked_config, load_config
from ledger.config.mirror import MirrorConfig
from ledger.errors import ConfigurationError, InvalidValueError, UnsafeError, UsageError
from ledger.mirror_maker.comparing import (
    COLUMNS,
    DIFFERENCES,
    SelectedName,
    compared_groups,
    compared_topics,
)
from ledger.mirror_maker.configuration import MakerConfiguration, Release, understood
from ledger.mirror_maker.keys import Verdict
from ledger.mirror_maker.reading import read_file
from ledger.mirror_maker.translating import KeyRow, key_rows, selection_of, translated
from ledger.mirror_maker.writing import configuration_text
from ledger.words import counted

_KEY_COLUMNS = "where string, key string, value string, verdict string, taken_as string, remark string"


@click.command(name="import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(dir_okay=False))
@click.option(
    "--check",
    is_flag=True,
    help="Ask the clusters which topics and groups MirrorMaker selects, and which the configuration: that of --config, "
    "else the imported one. Exit with 4 where they differ.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["toml", "table", "json", "csv"]),
    help="toml: the configuration, and the table of keys on stderr; else that table alone. With --check always its "
    "table. Default: toml, with --check table.",
)
@click.option(
    "--release",
    metavar="MAJOR.MINOR",
    help="Of Kafka that MirrorMaker is of: defaults differ. Default: what the file says, else the newest known, 4.3.",
)
@wide_option
@click.pass_context
def import_command(
    context: click.Context,
    files: tuple[str, ...],
    check: bool,
    output: str | None,
    release: str | None,
    wide: bool,
) -> None:
    """Read the configuration of a MirrorMaker 2, and print it in this program's keys.

    FILE is a file of properties of the dedicated process, a connector of Kafka Connect (properties or JSON; several
    files together), or a resource KafkaMirrorMaker2 of Strimzi. Secrets become references. Nothing is changed.
    """
    form = Form(output or ("table" if check else "toml"), wide)
    if form.output != "toml":
        require_tables(form.output, wide=wide)
    read = [read_file(Path(file)) for file in files]
    named = ", ".join(file.name for file in read)
    try:
        made = understood(read, _release(release))
    except InvalidValueError as error:
        raise ConfigurationError(named, [f"{error}; nothing was imported"]) from None
    translation = translated(made)
    text = configuration_text(translation, [Path(file.name).name for file in read])
    if check:
        if form.output == "toml":
            raise UsageError("--check prints a table: -o table, json or csv; nothing was compared")
        given = context.find_root().obj
        config = load_config(Path(given)) if given else checked_config(text, Path(named))
        _put_comparison(list(_compared(config, made)), form)
        return
    rows = key_rows(made, translation, [remark for file in read for remark in file.remarks])
    _put_rows(rows, text, form)
    open_rows = [row for row in rows if row.verdict is Verdict.NOT_YET]
    if open_rows:
        raise UnsafeError(
            f"{counted(len(open_rows), 'key')} of {named} could not be expressed: see the rows not_yet, and write what "
            "they say before the first run"
        )


def _release(given: str | None) -> Release | None:
    if given is None:
        return None
    if not re.fullmatch(r"\d+(\.\d+)*", given):
        raise UsageError(f"--release is MAJOR.MINOR as in 3.9, got {given!r}; nothing was imported")
    return tuple(map(int, given.split(".")))


def _put_rows(rows: Sequence[KeyRow], text: str, form: Form) -> None:
    values = [asdict(row) for row in rows]
    if form.output != "toml":
        form.put_rows(values, _KEY_COLUMNS)
        return
    put(text)
    Form("table", form.wide).say_rows(values, _KEY_COLUMNS)


def _compared(config: MirrorConfig, made: MakerConfiguration) -> Iterator[SelectedName]:
    from ledger.context import cluster_admin  # it brings the Kafka client, and printing needs none

    for flow in made.flows:
        if not flow.is_enabled:
            continue
        own = config.flow(flow.name)
        maker = selection_of(flow)
        with cluster_admin(config, own.source) as source, cluster_admin(config, own.target) as target:
            topics = {name: topic.internal for name, topic in source.topics().items()}
            is_one = source.cluster_id() == target.cluster_id()
            yield from compared_topics(config, flow.name, maker, topics, same_cluster=is_one)
            yield from compared_groups(
                config, flow.name, maker, (group.group_id for group in source.groups())
            )


def _put_comparison(found: Sequence[SelectedName], form: Form) -> None:
    form.put_rows(map(asdict, found), COLUMNS)
    different = [one for one in found if one.comparison in DIFFERENCES]
    topics = sum(one.kind == "topic" for one in found)
    summed = f"{counted(topics, 'topic')} and {counted(len(found) - topics, 'group')} are selected by either"
    if different:
        raise UnsafeError(f"{summed}; {len(different)} not by both, or under another name: see `comparison`")
    say(f"{summed}, and by both under the same names")
