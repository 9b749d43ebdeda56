"""`mirror-back`: open the way back to a cluster that was lost and answers again."""

from collections.abc import Sequence

import click

from ledger.changeover.decisions import Decisions
from ledger.changeover.mirror_back import AskedMirrorBack, mirror_back
from ledger.cli.accepting import LOST_WITH_TOPIC, accept_option
from ledger.cli.configured import command_context
from ledger.cli.options import deficits_option, extras_option, required_why_options
from ledger.cli.printing import put_operation, said_once, say
from ledger.facts.operations import Why


@click.command(name="mirror-back")
@click.option(
    "--from", "source", required=True, help="The cluster where applications write since a failover."
)
@click.option("--to", "target", required=True, help="The cluster that was lost, and answers again.")
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated. Default: all.")
@extras_option
@deficits_option
@accept_option(
    [LOST_WITH_TOPIC], help="Recreate a topic though more is lost with it than extras. Can be repeated."
)
@required_why_options
@click.pass_context
def mirror_back_command(
    context: click.Context,
    source: str,
    target: str,
    topics: Sequence[str],
    extras: Sequence[str],
    deficits: Sequence[str],
    given_up: tuple[str, ...],
    why: Why,
) -> None:
    """Let what was written at --from since a failover come back to --to, while applications write on at --from.

    The fence of --to has to be proved first. Run again it takes a new cut; what was decided stays so.
    """
    asked = AskedMirrorBack(
        source=source,
        target=target,
        topics=tuple(topics) or None,
        decisions=Decisions.of(extras, deficits, undone="nothing was recorded"),
        given_up=given_up,
    )
    done = mirror_back(command_context(context, why), asked, said_once())
    for words in done.words:
        say(words)
    put_operation(done.operation_id, f"then: {'; '.join(done.commands)}")
