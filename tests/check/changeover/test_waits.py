"""A step that waits says for what, how far it is, and what to type: at once, on a terminal and in the ledger."""

from collections.abc import Mapping

import pytest

from ledger.answers.flow_status import open_apply
from ledger.changeover.approving import Approvals
from ledger.changeover.plans import Applies, ChangeoverKind, StepName, recorded_plan
from ledger.changeover.text import BEGUN, checklist
from ledger.serving.changes import Change, change_page
from ledger.serving.pages import key_of
from tests.simulation.ledger.opened import OpenedSnapshot
from tests.support.changing_pairs import HOOKS
from tests.support.failbacks import BACK, HOME, require_home, with_extras

pytestmark = pytest.mark.long


def test_a_failback_that_waits_for_a_driver_names_the_command_that_starts_it() -> None:
    pair, extras = with_extras()
    hooks: Mapping[StepName, str] = {step: HOOKS[step] for step in HOOKS if step is not StepName.CATCH_UP}
    plan = pair.plan(ChangeoverKind.FAILBACK, HOME, way=BACK, hooks=hooks)
    said, found = list[str](), list[tuple[str, ...]]()

    def waits(step: StepName, words: str) -> None:
        if step is not StepName.CATCH_UP:
            return
        if "grant the mirror WRITE" in words:
            pair.let_mirror_write_at_east()
            return
        said.append(words)
        assert len(said) < 300, said[-1]
        if len(said) == 2:  # what was said first is recorded by now
            at = OpenedSnapshot(pair.ledger)
            one = open_apply(at, at_ms=pair.schedule.now_ms(), is_now=False, flows=())  # type: ignore[arg-type]
            begun = Applies.read(at.rows).open()
            assert one is not None
            assert begun is not None
            planned, recorded = recorded_plan(
                [row for row in pair.ledger.rows("operations") if row["kind"] == "plan"], plan
            )
            [step_line] = [line.line for line in checklist(planned, begun) if line.state == BEGUN]
            change = Change(plan, 0, "ana", planned, recorded, (begun,), Approvals())
            page = change_page([change], key_of(plan), now_ms=pair.schedule.now_ms())
            assert page is not None
            found.append((one.words, step_line, *page.next))
        if "mirror-ledger run west-to-east" in words and len(said) > 1:
            pair.start_reverse()

    pair.apply(plan, waits=waits)
    assert "offsets of west to come" in said[0]
    assert said[0].endswith("no driver is at work: mirror-ledger run west-to-east")
    assert len(found[0]) == 3, "in status, as the step of the plan, and on its page"
    assert all(said[0] in words for words in found[0])
    require_home(pair, extras)
