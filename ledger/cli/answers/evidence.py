"""`verify-ledger`: whether the ledger's rows are those that were appended. No JVM, no broker."""

from collections import Counter

import click

from ledger.cli.configured import configuration
from ledger.cli.options import as_of_option, table_options
from ledger.cli.printing import Form, say
from ledger.clock import SystemClock
from ledger.errors import UnsafeError
from ledger.store.heads import anchors_at
from ledger.store.verifying import Verified, verify_ledger
from ledger.words import counted

_FOUND = "table string, writer string, writer_epoch bigint, round bigint, status string, words string"


@click.command("verify-ledger")
@click.option(
    "--anchor",
    "anchors",
    multiple=True,
    metavar="FILE|PATH",
    help="Heads that are kept outside of the ledger: a file of them, an anchor, or a copy; else [evidence] anchor.",
)
@as_of_option
@table_options
@click.pass_context
def verify_ledger_command(
    context: click.Context, anchors: tuple[str, ...], as_of: str | None, form: Form
) -> None:
    """Whether every row is the one that was appended: a line for each that is not. Exit with 4 where one is found.

    All files of the ledger are read. That its end was cut off, or an older copy put in its place, is found by heads
    that are kept elsewhere alone: without an anchor both are not checked.
    """
    config = configuration(context)
    places = anchors or tuple(filter(None, (config.evidence.anchor,)))
    known = [anchor for place in places for anchor in anchors_at(place)]
    verified = verify_ledger(config.ledger.path, known, as_of=as_of, now_ms=SystemClock().now_ms())
    form.put_rows(
        (
            {
                "table": one.table,
                "writer": one.writer,
                "writer_epoch": one.epoch,
                "round": one.round,
                "status": one.status,
                "words": one.words,
            }
            for one in verified.found
        ),
        _FOUND,
    )
    say(*_said_of(verified))
    if verified.found:
        by_status = Counter(one.status for one in verified.found)
        named = ", ".join(f"{status}: {count}" for status, count in sorted(by_status.items()))
        raise UnsafeError(
            f"rows of the ledger are not those that were appended ({named}); nothing was changed. RUNBOOK.md, "
            '"The ledger was changed", says what to do'
        )


def _said_of(verified: Verified) -> list[str]:
    appends = counted(verified.appends, "append")
    lines = [
        f"{appends} of {counted(len(verified.heads), 'chain')} compared with their links; root {verified.root}"
    ]
    if verified.unlinked:
        lines.append(f"not chained: {counted(verified.unlinked, 'append')} from before there were links")
    if not verified.anchors:
        lines.append(
            "not checked, for there is no anchor: a cut end, and an older copy in place of the ledger"
        )
    return lines
