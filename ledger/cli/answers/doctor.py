"""`doctor`: checks everything that a mirror needs, before and while it runs."""

from collections.abc import Sequence

import click

from ledger.cli.configured import configuration
from ledger.cli.options import output_option
from ledger.cli.printing import put, say, terminal_width
from ledger.doctor.checks import Verdict
from ledger.doctor.examination import examine
from ledger.doctor.flow import DEFAULT_SHARE
from ledger.doctor.results import is_safe, one_row_for_each_cause
from ledger.doctor.text import RENDERERS, render_text, summary
from ledger.errors import UnsafeError, UsageError


@click.command()
@click.argument("flows", nargs=-1, metavar="[FLOW]...")
@click.option("--probe", is_flag=True, help="Also test targets in topics made for it and deleted again.")
@click.option("--strict", is_flag=True, help="Exit with 4 for warnings too.")
@click.option(
    "--only",
    multiple=True,
    metavar="VERDICT[,VERDICT]...",
    help=f"Print only rows with these verdicts: {', '.join(Verdict)}. The exit code is that of all checks.",
)
@click.option(
    "--retention-left",
    type=click.FloatRange(0, 1),
    default=DEFAULT_SHARE,
    show_default=True,
    help="Warn when less than this share of a source's retention is left for what is not copied yet.",
)
@output_option("json", "csv")
@click.pass_context
def doctor(
    context: click.Context,
    flows: tuple[str, ...],
    probe: bool,
    strict: bool,
    only: tuple[str, ...],
    retention_left: float,
    output: str,
) -> None:
    """Check all that FLOWs need (default: every flow), and say what to do. Sources are never written to."""
    wanted = _verdicts(only)
    config = configuration(context)
    results = one_row_for_each_cause(examine(config, flows, probe=probe, retention_share=retention_left))
    printed = [result for result in results if result.verdict in wanted]
    is_table = output == "table"
    put(render_text(printed, width=terminal_width()) if is_table else RENDERERS[output](printed))
    summed = summary(results, printed)
    if not is_safe(results, strict=strict):
        raise UnsafeError(f"not everything that a mirror needs is in order: {summed}")
    say(summed)


def _verdicts(only: Sequence[str]) -> frozenset[Verdict]:
    """The verdicts that are asked for; all when none is named."""
    names = [name.strip() for item in only for name in item.split(",")]
    if strange := [name for name in names if name not in list(Verdict)]:
        raise UsageError(
            f"--only takes {', '.join(Verdict)}, got {', '.join(map(repr, strange))}; nothing was checked"
        )
    return frozenset(map(Verdict, names)) or frozenset(Verdict)
