"""What a plan says is to be done ends the state that it was said in: the command that is printed is typed as it is."""

import re
import shlex

import pytest

from ledger.changeover.plans import recorded_plan
from ledger.cli.acts import fencing
from ledger.cli.changeover import plan
from ledger.context import Context
from ledger.facts.operations import Why
from tests.support.changing_pairs import ChangingPair
from tests.support.commands import Done, mirror_ledger
from tests.support.failbacks import with_extras
from tests.support.typed_plans import printed

pytestmark = pytest.mark.long

HOME = "mirror-ledger plan failback --from west --to east --extras keep --within 0 --watch 1"


def typed(pair: ChangingPair, capture: pytest.CaptureFixture[str], line: str) -> Done:
    """By the command itself, beside the clusters of the pair."""
    with pair.outside.seen_by(pair.outside.process()), pytest.MonkeyPatch.context() as patch:
        for module in (plan, fencing):
            patch.setattr(module, "command_context", lambda _, why=None: Context(pair.config, why or Why()))
        return mirror_ledger(capture, *shlex.split(line)[1:])


def to_do(done: Done, code: str) -> str:
    """The command that is printed about a reason that stands against a plan."""
    assert done.code == 4, done.err
    blocked = [line for line in done.out.splitlines() if line.startswith("  blocked")]
    assert "--how" not in " ".join(blocked), "an option of another command"
    [advice] = re.findall(rf"^  to do     (?:\w+, )*{code}(?:, \w+)*: (.*)$", done.out, re.MULTILINE)
    return printed(str(advice))


def test_a_failback_between_clusters_without_an_authorizer_passes_as_it_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pair, _ = with_extras()
    for one in (pair.east, pair.west):
        one.authorizations = lambda: None  # type: ignore[method-assign]
    for more in ("", " --accept unproven=sandbox", " --fence none"):
        said = to_do(typed(pair, capsys, f"{HOME}{more}"), "fence")
        done = typed(pair, capsys, said)
        assert done.code == 0, f"{said}\n{done.out}"
        [plan_id] = re.findall(r"^plan (\w+):", done.out)
        rows = [row for row in pair.ledger.rows("operations") if row["kind"] == "plan"]
        choices = recorded_plan(rows, plan_id)[0].choices
        assert (choices.extras, choices.within, choices.watch_seconds) == (("keep",), 0, 1.0)
        assert choices.unproven == ("sandbox" if "sandbox" in more else None)
    of_people = f"{HOME} --fence none --accept unproven=people"
    fenced = typed(pair, capsys, to_do(typed(pair, capsys, of_people), "not_fenced"))
    assert fenced.code == 0, fenced.err
    assert typed(pair, capsys, of_people).code == 0
    refused = typed(pair, capsys, "mirror-ledger fence west --topic orders --reason closing")
    assert refused.code == 5
    assert typed(pair, capsys, printed(refused.err.replace("\n", " "))).code == 0
    pair.end()
