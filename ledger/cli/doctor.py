"""`doctor`: checks everything that a mirror needs, before and while it runs."""

from collections import Counter
from collections.abc import Sequence

import click
import pyarrow as pa

from ledger import app
from ledger.cli.configured import configuration
from ledger.cli.printing import output_option, rendered, require_tables, wide_option
from ledger.errors import UnsafeError
from ledger.operations.doctor.checks import Verdict
from ledger.operations.doctor.findings import Finding, is_safe
from ledger.operations.doctor.retention import DEFAULT_SHARE

_COLUMNS = ("subject", "check", "verdict", "measured", "advice")


@click.command()
@click.argument("flows", nargs=-1, metavar="[FLOW]...")
@click.option("--probe", is_flag=True, help="Also test targets in topics made for it and deleted again.")
@click.option("--strict", is_flag=True, help="Exit with 4 for warnings too.")
@click.option(
    "--retention-left",
    type=click.FloatRange(0, 1),
    default=DEFAULT_SHARE,
    show_default=True,
    help="Warn when less than this share of a source's retention is left for what is not copied yet.",
)
@output_option
@wide_option
@click.pass_context
def doctor(
    context: click.Context,
    flows: tuple[str, ...],
    probe: bool,
    strict: bool,
    retention_left: float,
    output: str,
    wide: bool,
) -> None:
    """Check all that FLOWs need (default: every flow), and say what to do. Sources are never written to."""
    require_tables(output, wide=wide)
    config = configuration(context)
    findings = app.examine(config, flows, probe=probe, retention_share=retention_left)
    answer = pa.Table.from_pylist(
        list(map(_row, findings)), schema=pa.schema([(c, pa.string()) for c in _COLUMNS])
    )
    click.echo(rendered(answer, output, wide=wide), nl=False)
    click.echo(_summary(findings), err=True)
    if not is_safe(findings, strict=strict):
        raise UnsafeError(
            "not everything that a mirror needs is in order:\n  " + _reasons(findings, strict=strict)
        )


def _row(finding: Finding) -> dict[str, str | None]:
    return {
        "subject": finding.subject,
        "check": finding.check.value,
        "verdict": finding.verdict.value,
        "measured": finding.measured,
        "advice": finding.advice,
    }


def _summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    return f"{len(findings)} checks: " + ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)


def _reasons(findings: Sequence[Finding], *, strict: bool) -> str:
    told = [finding for finding in findings if not is_safe([finding], strict=strict)]
    return "\n  ".join(f"{one.subject}: {one.check}: {one.verdict}: {one.measured}" for one in told)
