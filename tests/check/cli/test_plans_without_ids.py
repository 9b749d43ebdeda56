"""`apply` without the id of a plan carries out the one that can be meant, and names it."""

import io

import pytest

from ledger.changeover.plans import ChangeoverKind, Choices, Plan
from ledger.cli.changeover import apply
from ledger.facts.changeovers import ApplyClaimed, PlanRecorded, RecordedBlocker
from tests.support.changeovers import plan
from tests.support.operated import Operated

OTHER = plan(choices=Choices(watch_seconds=3.0))


def record(ledger: Operated, one: Plan, *, blockers: tuple[RecordedBlocker, ...] = ()) -> str:
    made = PlanRecorded(plan_id=one.plan_id, plan=one.content(), blockers=blockers, cut="c", forecast={})
    ledger.operation("plan", made.content())
    return one.plan_id


def asked(ledger: Operated, *options: str) -> tuple[int, str]:
    """The exit code and what is said; no cluster answers here, and nobody is there to be asked."""
    done = ledger.command("apply", "--reason", "a drill", *options)
    return done.code, done.err


class Terminal(io.StringIO):
    """Where a person types lines."""

    def isatty(self) -> bool:
        return True


def test_a_person_is_asked_for_the_reason_and_a_script_has_to_give_it(
    idle: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_id = record(idle, plan())
    missing = idle.command("apply", plan_id)
    assert (missing.code, "Missing option '--reason'" in missing.err) == (2, True)
    monkeypatch.setattr("sys.stdin", Terminal("a drill\nnowhere\n"))
    done = idle.command("apply", plan_id)
    assert (done.code, done.err.index("why, for the ledger") < done.err.index("type its name")) == (2, True)
    assert "'nowhere' is not 'west'; nothing was done" in done.err


def test_without_a_plan_nothing_is_done(idle: Operated) -> None:
    code, said = asked(idle)
    assert (code, "no plan can be carried out" in said) == (2, True)


def test_the_only_plan_that_nothing_stands_against_is_named_and_taken(idle: Operated) -> None:
    blocked = RecordedBlocker(code="fence", words="no right", advice="grant it", cause="no right")
    record(idle, OTHER, blockers=(blocked,))
    record(idle, plan(direction="of a promotion that is over"))
    plan_id = record(idle, plan())
    code, said = asked(idle)
    assert f"plan {plan_id}: switchover from east to west, planned by somebody" in said
    assert (code, "there is nobody to ask" in said) == (2, True), "it is that one whose target is to be typed"


def test_of_several_none_is_taken_and_all_are_listed(idle: Operated) -> None:
    ids = [record(idle, plan()), record(idle, OTHER)]
    code, said = asked(idle)
    assert (code, "2 plans can be carried out, name one" in said, [one in said for one in ids]) == (
        2,
        True,
        [True, True],
    )


def test_what_was_begun_is_continued_whatever_else_was_planned(idle: Operated) -> None:
    begun = record(idle, plan())
    record(idle, OTHER)
    idle.operation("apply_claimed", ApplyClaimed(plan_id=begun, host="h:1:1:", is_continued=False).content())
    assert f"plan {begun}: " in asked(idle)[1]


@pytest.mark.parametrize("by", ["somebody", "another"])
def test_unasked_only_a_plan_of_this_account_is_carried_out(
    by: str, idle: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(idle, plan(ChangeoverKind.FAILOVER))
    monkeypatch.setattr(apply, "account", lambda: by)
    code, said = asked(idle, "--yes")
    is_refused = "--yes carries out only a plan that you made within the last hour" in said
    assert is_refused is (by == "another")
    assert (code == 2) is is_refused
