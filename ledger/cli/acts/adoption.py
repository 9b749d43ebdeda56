"""`adopt`: take over what MirrorMaker 2, or somebody by hand, has mirrored."""

import click
import pyarrow as pa

from ledger.adopt.adopting import Consent, Verdict, adopt_flow, result_row
from ledger.cli.acts.refusals import refuse_partitions
from ledger.cli.configured import configuration
from ledger.cli.printing import output_option, put, rendered, require_tables, say, wide_option


@click.command()
@click.argument("flow")
@click.option("--topic", "topics", multiple=True, help="Only this source topic; may be given several times.")
@click.option("--dry-run", is_flag=True, help="Compare and report; claim and record nothing.")
@click.option(
    "--accept-missing", is_flag=True, help="Record source records that the target lacks as lost (skipped)."
)
@click.option(
    "--accept-foreign", is_flag=True, help="Continue after records of others at the end of the target."
)
@output_option
@wide_option
@click.pass_context
def adopt(
    context: click.Context,
    flow: str,
    topics: tuple[str, ...],
    dry_run: bool,
    accept_missing: bool,
    accept_foreign: bool,
    output: str,
    wide: bool,
) -> None:
    """Take over for FLOW the target topics that something else has filled; nothing is copied again."""
    require_tables(output, wide=wide)
    config = configuration(context)
    adoptions = adopt_flow(
        config,
        flow,
        topics=topics,
        consent=Consent(missing=accept_missing, foreign=accept_foreign),
        dry_run=dry_run,
    )
    rows = [result_row(adoption) for adoption in adoptions]
    put(rendered(pa.Table.from_pylist(rows, schema=_SCHEMA), output, wide=wide))
    if dry_run:
        say("dry run: nothing was claimed or recorded")
    refused = {one.pair: one.remarks[0] for one in adoptions if one.verdict is Verdict.REFUSED}
    headline = f"{flow}: {len(refused)} of {len(adoptions)} partitions were not taken over"
    refuse_partitions(headline, refused, of=len(adoptions))


_TEXT, _NUMBER = pa.string(), pa.int64()
_SCHEMA = pa.schema(
    {
        "source_topic": _TEXT,
        "partition": _NUMBER,
        "target_topic": _TEXT,
        "verdict": _TEXT,
        "paired": _NUMBER,
        "source_first": _NUMBER,
        "source_last": _NUMBER,
        "target_first": _NUMBER,
        "target_last": _NUMBER,
        "duplicates": _NUMBER,
        "unmatched_source": _TEXT,
        "unmatched_target": _TEXT,
        "source_goes_on": _NUMBER,
        "target_goes_on": _NUMBER,
        "remarks": _TEXT,
    }
)
