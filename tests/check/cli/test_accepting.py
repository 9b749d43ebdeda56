"""What a person takes upon himself is named by `--accept`."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from ledger.cli.accepting import OBJECTIVE, PRODUCERS_STOPPED, SUPER_USER, UNPROVEN, accept_option

_RISKS = (OBJECTIVE, PRODUCERS_STOPPED, UNPROVEN, SUPER_USER)
_NOTHING = {
    "despite_objectives": False,
    "producers_stopped": False,
    "unproven": None,
    "confirmed_super_users": (),
    "accepted": (),
}


def given(*words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, what a command is given, and what it prints."""
    got: dict[str, Any] = {}

    @click.command()
    @click.argument("cluster")
    @accept_option(_RISKS, ["no_commit", "gone", "ahead"], help="")
    def act(**options: Any) -> None:
        assert options.pop("cluster") == "east"
        got.update(options)

    done = CliRunner().invoke(act, [*words, "east"])
    return done.exit_code, got, done.output


@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        ("", {}),
        ("--accept objective", {"despite_objectives": True}),
        ("--accept producers_stopped --accept gone", {"producers_stopped": True, "accepted": ("gone",)}),
        ("--accept unproven=a=b", {"unproven": "a=b"}),
        ("--accept super_user=User:a --accept super_user=User:b", {"confirmed_super_users": ("User:a", "User:b")}),
        ("--accept no_commit --accept gone", {"accepted": ("no_commit", "gone")}),
    ],
)  # fmt: skip
def test_a_name_is_an_argument_of_the_command(words: str, accepted: dict[str, Any]) -> None:
    assert given(*words.split())[:2] == (0, _NOTHING | accepted)


@pytest.mark.parametrize(
    ("word", "telling"),
    [
        ("fire", "'fire' is not one of objective, producers_stopped, unproven=REASON, super_user=User:NAME, no_commit"),
        ("unproven", "unproven=REASON is needed"),
        ("unproven=", "unproven=REASON is needed"),
        ("objective=yes", "objective takes no word"),
        ("gone=", "gone takes no word"),
    ],
)  # fmt: skip
def test_what_cannot_be_accepted_is_refused(word: str, telling: str) -> None:
    code, got, output = given("--accept", word)
    assert (code, got) == (2, {})
    assert telling in " ".join(output.replace("│", " ").split())


def test_help_lists_the_names_alone() -> None:
    output = given("--help")[2]
    assert "super_user=User:NAME" in output
