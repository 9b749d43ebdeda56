"""`audit`: whether the ledger keeps its invariants, all of it or what came since a cut. No JVM, no broker."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from ledger.answers.ledger import Ledger
from ledger.answers.values import Audit, AuditStatus
from ledger.cli.configured import configuration
from ledger.cli.options import as_of_option, show_cut_option, since_option, table_options
from ledger.cli.printing import Form, say, say_cut
from ledger.errors import UnsafeError, UsageError
from ledger.store.projection_audit import ProjectionStatus, audit_projections
from ledger.words import counted

_PROJECTIONS = "table string, rows bigint, projected bigint, differing bigint, status string"
COLUMNS = "audit string, rows bigint, status string"


@click.command()
@click.option(
    "--projections",
    is_flag=True,
    help="Compare what answers read instead of whole tables with the facts, row for row, instead.",
)
@since_option
@as_of_option
@show_cut_option
@table_options
@click.pass_context
def audit(
    context: click.Context, projections: bool, since: str | None, as_of: str | None, form: Form
) -> None:
    """Whether the ledger keeps its invariants: a line for each audit. Exit with 4 where one finds rows.

    With --since what came after that cut is audited, and what it continues, overlaps or denies: enough where the ledger
    was audited at that cut.
    """
    if projections and since is not None:
        raise UsageError(
            "--projections compares all rows of a cut: give --as-of, not --since; nothing was read"
        )
    ledger = Ledger.open(configuration(context), as_of=as_of)
    if projections:
        _audit_projections(ledger, form)
        return
    found = ledger.audit(since=since)
    form.put_rows(map(asdict, found), columns_of(form.output))
    say(said_of(found))
    say_cut(lambda: ledger.cut, form.output)
    require_kept(found, since)


def _audit_projections(ledger: Ledger, form: Form) -> None:
    found = audit_projections(ledger.snapshot)
    form.put_rows(map(asdict, found), _PROJECTIONS)
    say_cut(lambda: ledger.cut, form.output)
    if differing := [one.table for one in found if one.status is ProjectionStatus.DIFFERS]:
        raise UnsafeError(
            f"projections say something else than the facts: {', '.join(differing)}; answers by them may be wrong. "
            "mirror-ledger maintain --rebuild drops them and makes them from the facts"
        )


def columns_of(output: str) -> str:
    """In a table nobody could read the token, which is said beside it."""
    return COLUMNS if output == "table" else f"{COLUMNS}, since string"


def said_of(found: Sequence[Audit]) -> str:
    """From where on was audited."""
    since = found[0].since
    left_out = ", ".join(one.audit for one in found if one.status is AuditStatus.NOT_AUDITED)
    if since is None:
        return "all rows were audited"
    return f"what came since cut {since} was audited; {left_out} needs all rows, and was left out"


def require_kept(found: Sequence[Audit], since: str | None) -> None:
    """Raise `UnsafeError` where an audit found rows."""
    if broken := [one for one in found if one.status is AuditStatus.BROKEN]:
        named = ", ".join(f"{one.audit}: {counted(one.rows or 0, 'row')}" for one in broken)
        again = "" if since is None else f" --since {since}"
        raise UnsafeError(
            f"the ledger breaks an invariant ({named}); mirror-ledger query {broken[0].audit}{again} says where"
        )
