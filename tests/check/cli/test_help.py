"""The help leads by what a person wants, and says what each choice of a risk means."""

import re

import click
from click.testing import CliRunner

from ledger.cli.main import cli


def printed(*words: str) -> str:
    done = CliRunner().invoke(cli, [*words, "--help"], terminal_width=80)
    assert done.exit_code == 0
    return done.output


def test_each_command_has_one_whole_line_below_what_a_person_wants() -> None:
    text = printed()
    shown = re.findall(r"^  ([a-z-]+)  +(\S.*)$", text.partition("First mirror:")[2], re.MULTILINE)
    assert sorted(name for name, _ in shown) == cli.list_commands(click.Context(cli))
    assert [line for _, line in shown if line.endswith("...")] == []
    titles = re.findall(r"^([A-Z].*):$", text, re.MULTILINE)
    assert titles == [
        "Options",
        "First mirror",
        "See",
        "Move groups",
        "Change direction",
        "Keep the ledger",
        "Repairs",
    ]
    assert text.index("  plan  ") < text.index("  apply  ") < text.index("  accept-foreign  ")


def test_the_help_of_a_plan_says_what_each_risk_is_that_may_be_accepted() -> None:
    text = printed("plan", "failback").partition("--accept NAME")[2]
    for name in ("unproven=REASON", "producers_stopped", "lost_with_topic=TOPIC", "no_commit", "changelog"):
        assert re.search(rf"^ +{name}: \w+", text, re.MULTILINE), name
