"""`mirror-back`: open the way back to a cluster that was lost and answers again."""

from collections.abc import Sequence

import click

from ledger.changeover.mirror_back import AskedMirrorBack, mirror_back
from ledger.cli.configured import command_context
from ledger.cli.options import required_why_options
from ledger.cli.printing import put_operation, say
from ledger.errors import UsageError
from ledger.facts.extras import ExtrasPolicy
from ledger.facts.operations import Why

_POLICIES = {"keep": ExtrasPolicy.KEEP_LOCAL}


@click.command(name="mirror-back")
@click.option(
    "--from", "source", required=True, help="The cluster where applications write since a failover."
)
@click.option("--to", "target", required=True, help="The cluster that was lost, and answers again.")
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated. Default: all.")
@click.option(
    "--extras",
    multiple=True,
    metavar="[TOPIC=]keep",
    help="What becomes of records that --to alone has. keep: they stay there and are copied nowhere, and groups pass "
    "them. Of one topic, or of all others. Can be repeated.",
)
@required_why_options
@click.pass_context
def mirror_back_command(
    context: click.Context,
    source: str,
    target: str,
    topics: Sequence[str],
    extras: Sequence[str],
    why: Why,
) -> None:
    """Let what was written at --from since a failover come back to --to, while applications write on at --from.

    The fence of --to has to be proved first. Run again it takes a new cut; what was decided stays so.
    """
    policies, policy = _policies(extras)
    asked = AskedMirrorBack(
        source=source, target=target, topics=tuple(topics) or None, policies=policies, policy=policy
    )
    done = mirror_back(command_context(context, why), asked, say)
    for words in done.words:
        say(words)
    put_operation(done.operation_id, f"then: {'; '.join(done.commands)}")


def _policies(given: Sequence[str]) -> tuple[dict[str, ExtrasPolicy], ExtrasPolicy | None]:
    """By topic, and of all others."""
    policies: dict[str, ExtrasPolicy] = {}
    of_others: ExtrasPolicy | None = None
    for text in given:
        topic, _, name = text.rpartition("=")
        if name not in _POLICIES:
            raise UsageError(
                f"--extras takes [TOPIC=]POLICY, got {text!r}; policies: {', '.join(_POLICIES)}; nothing was recorded"
            )
        if topic:
            policies[topic] = _POLICIES[name]
        else:
            of_others = _POLICIES[name]
    return policies, of_others
