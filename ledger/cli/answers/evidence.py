"""`verify-ledger`: whether the ledger's rows are those that were appended. `evidence`: a bundle that stands alone.

No JVM, no broker.
"""

import os
from collections import Counter
from pathlib import Path

import click

from ledger.answers.ledger import Ledger
from ledger.cli.answers.report import require_report_extra
from ledger.cli.configured import configuration
from ledger.cli.options import as_of_option, table_options, time_of
from ledger.cli.printing import Form, say
from ledger.clock import SystemClock
from ledger.errors import UnsafeError, UsageError
from ledger.facts.tables import OPERATIONS
from ledger.store.heads import anchors_at
from ledger.store.snapshots import DeltaLedger
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
    if not verified.anchors:
        lines.append(
            "not checked, for there is no anchor: a cut end, and an older copy in place of the ledger"
        )
    return lines


@click.command()
@click.argument("operation", required=False)
@click.option(
    "--since", help="A time (ISO-8601 with offset, or epoch ms); default the beginning, or that of OPERATION."
)
@click.option(
    "--until",
    help="A time (ISO-8601 with offset, or epoch ms), an operation id or a cut token; default what is recorded by now.",
)
@click.option(
    "--to",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="A folder that is made for it.",
)
@click.pass_context
def evidence(
    context: click.Context, operation: str | None, since: str | None, until: str | None, to: Path
) -> None:
    """Write a bundle that stands without the ledger: rows of a period with their links, cuts, heads, and a report.

    Of an OPERATION, from its first row on, or --since a time. `python3 FOLDER/verify.py` checks it with Python alone
    and prints the lines of openssl for the signature, by [evidence] key, and for a time stamp.
    """
    require_report_extra()
    from ledger.evidence.bundle import write_bundle
    from ledger.evidence.reports import approvals_in, reports_of

    if operation is not None and since is not None:
        raise UsageError("give an OPERATION or --since, not both; nothing was written")
    config = configuration(context)
    ledger = Ledger.open(config, as_of=until)
    since_ms = None if since is None else time_of("--since", since, undone="nothing was written")
    if operation is not None:
        since_ms = _begins_at(ledger, operation)
    now_ms = SystemClock().now_ms()
    at = ledger.snapshot if ledger.as_of is not None else ledger.at(ledger.cut).snapshot
    if since_ms is None and at.last_left is not None:
        since_ms = at.last_left.until_ms  # what was before lies in archives
    before = None if since_ms is None else DeltaLedger(at.path).at_time(since_ms - 1, now_ms=now_ms)
    about = (
        f"operation {operation}"
        if operation
        else "all appends"
        if since is None
        else f"what came since {since}"
    )
    key = config.evidence.key
    appends = write_bundle(
        to,
        at,
        before,
        about=about,
        now_ms=now_ms,
        reports=reports_of(ledger, operation, since_ms),
        approvals=approvals_in(at, since_ms),
        key=None if key is None else key.resolve(os.environ),
    )
    say(f"{to} has {counted(appends, 'append')} with their links; check it: python3 {to / 'verify.py'}")
    if key is None:
        say("it is not signed, so anybody could have made it: [evidence] has no key")


def _begins_at(ledger: Ledger, operation: str) -> int:
    rows = ledger.snapshot.rows(OPERATIONS.name, [("operation_id", "=", operation)])
    if not rows:
        raise UsageError(f"the ledger has no operation {operation} at this cut; nothing was written")
    return min(int(row["recorded_at_ms"]) for row in rows)
