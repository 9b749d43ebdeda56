"""`drill`: try where groups would continue after a failover, under names of its own, and remove all of it again."""

from typing import Any

import click

from ledger.changeover.drilling import AskedDrill, Drill, PlaceResult, drill
from ledger.changeover.losses import loss_words
from ledger.changeover.plans import FenceChoice
from ledger.changeover.rehearsing import AskedRehearsal, stuck_words
from ledger.cli.accepting import MIRROR_NOT_SHUT_OUT, NEWER, OBJECTIVE, STATUSES_OF_PLANS, accept_option
from ledger.cli.changeover.choosing import chosen
from ledger.cli.configured import command_context
from ledger.cli.options import table_options, why_options
from ledger.cli.printing import Form, say
from ledger.errors import UnsafeError
from ledger.facts.drills import DrillVerdict
from ledger.facts.operations import Why
from ledger.facts.ways import Direction
from ledger.words import counted, duration

_RISKS = (NEWER, MIRROR_NOT_SHUT_OUT, OBJECTIVE)
_COLUMNS = "group_id string, places bigint, " + ", ".join(f"{one} bigint" for one in PlaceResult)


@click.command(name="drill")
@click.option(
    "--from", "source", required=True, help="The cluster that would be lost; nothing changes there."
)
@click.option("--to", "target", required=True, help="The cluster where places are tried.")
@click.option("--topic", "topics", multiple=True, help="Only this topic of the target. Can be repeated.")
@click.option("--group", "groups", multiple=True, help="Only this group. Can be repeated.")
@click.option(
    "--records",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="How many are read at most behind each place.",
)
@accept_option(_RISKS, STATUSES_OF_PLANS, help="As plan failover takes it. Can be repeated.")
@why_options
@table_options
@click.pass_context
def drill_command(
    context: click.Context,
    /,
    source: str,
    target: str,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    records: int,
    accepted: tuple[str, ...],
    why: Why,
    form: Form,
    **risks: bool,
) -> None:
    """Try a failover's places at --to: commit them for groups `drill-GROUP`, read there, compare, and remove them.

    No application is touched, and nothing moves. Its result is recorded.
    """
    choices = chosen(
        topics=topics,
        groups=groups,
        accepted=accepted,
        fence=FenceChoice.NONE,
        unproven="a drill fences nothing",
        source_given_up=True,
        **risks,
    )
    asked = AskedDrill(AskedRehearsal(Direction(source, target), choices), records)
    done = drill(command_context(context, why), asked, say)
    form.put_rows(map(_row, done.by_group.items()), _COLUMNS)
    for words in _words(done):
        say(words)
    if done.verdict is not DrillVerdict.PASSED:
        raise UnsafeError(
            f"the drill is {done.verdict} (operation {done.operation_id}); no application was touched"
        )


def _row(found: tuple[str, dict[str, int]]) -> dict[str, Any]:
    group, counts = found
    none = dict.fromkeys(map(str, PlaceResult), 0)
    return {"group_id": group, "places": sum(counts.values()), **none, **counts}


def _words(done: Drill) -> list[str]:
    content, forecast = done.content, done.made.forecast
    lines = list(content.problems)
    if done.stuck:
        lines.append(f"cannot move: {stuck_words(done.stuck)}")
    commit_s, read_s = content.commit_seconds or 0.0, content.read_seconds or 0.0
    return [
        *lines,
        f"lost, as the plan knows it: {loss_words(forecast)}",
        f"an apply would take about {duration(content.apply_seconds)}; the drill took {commit_s:.1f} s to commit "
        f"{counted(len(done.results), 'place')} of {counted(len(content.groups), 'group')} and {read_s:.1f} s to read",
        f"operation {done.operation_id}: {done.verdict}; its groups were removed",
    ]
