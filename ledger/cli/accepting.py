"""`--accept NAME`: what stands against a command has a name, and by it a person takes it upon himself."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ledger.changeover.planning import CHANGELOG
from ledger.offsets.setting import ACCEPTABLE, NOT_COPIED, NOT_RECORDED, UNREAD_ADVICE, WITHOUT_OFFSET
from ledger.offsets.statuses import TranslationStatus
from ledger.store.answers import MISSING_ROWS

_Command = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Risk:
    """One that is no status of a translation: `--accept name`, or `--accept name=WORD` where `word` says which.

    `meaning`: what is accepted, for the help. `argument`: of the command, which is given whether it was accepted, or
    the word, or all words where it `is_repeated`.
    """

    name: str
    meaning: str
    argument: str
    word: str | None = None
    is_repeated: bool = False

    @property
    def spelled(self) -> str:
        return self.name if self.word is None else f"{self.name}={self.word}"

    def value(self, words: Sequence[str]) -> bool | str | tuple[str, ...] | None:
        """What the command is given for these, of the option however often."""
        if self.is_repeated:
            return tuple(words)
        if self.word is None:
            return bool(words)
        return words[-1] if words else None


OBJECTIVE = Risk(
    "objective",
    "more is lost, or takes longer, than [objectives] allow",
    "despite_objectives",
)
NEWER = Risk("newer", "a commit at the target that lies beyond is set back", "overwrite_newer")
SOURCE_ANSWERS = Risk(
    "source_answers",
    "the source answers, and what is written there now stays behind",
    "source_given_up",
)
MIRROR_NOT_SHUT_OUT = Risk(
    "mirror_not_shut_out",
    "no rule of the target can keep an older mirror out",
    "accept_unproven_shut_out",
)
PRODUCERS_STOPPED = Risk(
    "producers_stopped",
    "producers are stopped, by your word: --fence shut cannot prove it",
    "producers_stopped",
)
UNPROVEN = Risk(
    "unproven",
    "nobody can prove that no application writes at the source, for this reason",
    "unproven",
    "REASON",
)
SUPER_USER = Risk(
    "super_user",
    "this super user, whom no rule keeps out, writes nothing",
    "confirmed_super_users",
    "User:NAME",
    is_repeated=True,
)
LOST_WITH_TOPIC = Risk(
    "lost_with_topic",
    "what else is lost when the topic is created again",
    "given_up",
    word="TOPIC",
    is_repeated=True,
)
_OF_STATUSES: Mapping[str, str] = {
    TranslationStatus.LOST: "the next record was lost before it was copied: the group begins behind it",
    TranslationStatus.EXPIRED_ON_TARGET: "unread records have expired at the target",
    TranslationStatus.AHEAD: "the group has read what is not at the target",
    TranslationStatus.GONE: "the commit exists no more: the last one that was recorded counts",
    TranslationStatus.HIDDEN: "the mirror may not read the commit any more: the last one that was recorded counts",
    TranslationStatus.NO_COMMIT: "a partition has no commit: the group begins at the first record that is unread",
    TranslationStatus.NO_MAP: "nothing is recorded of a copy: auto.offset.reset decides",
    TranslationStatus.OTHER_INCARNATION: "the topic was created again since the commit: auto.offset.reset decides",
    TranslationStatus.OTHER_TARGET_INCARNATION: "the target topic was created again: auto.offset.reset decides",
    "unavailable": "the group's coordinator does not answer: the group stays",
    "permitted_listed": "there may be groups that the mirror is not shown: they stay",
    NOT_RECORDED: "nobody has the group recorded now: its last recorded commits count",
    NOT_COPIED: "what the application wrote before its commit was not all copied",
    MISSING_ROWS: "rows of the ledger are missing: what they said is not in the answer",
    CHANGELOG: "state of a stream application is not of the instant of its commits",
}


OF_PLANS = (
    *(UNPROVEN, PRODUCERS_STOPPED, SUPER_USER),
    *(MIRROR_NOT_SHUT_OUT, OBJECTIVE, NEWER),
)
"""What may stand against any change of direction."""
STATUSES_OF_PLANS = (*ACCEPTABLE, *WITHOUT_OFFSET, *UNREAD_ADVICE, NOT_COPIED, CHANGELOG)
"""Statuses of groups that a plan moves all the same."""


def accept_option(
    risks: Sequence[Risk], statuses: Iterable[str] = (), *, help: str
) -> Callable[[_Command], _Command]:
    """`--accept` of a command that takes these risks, and as its argument `accepted` these statuses."""
    names = _Names(risks, dict.fromkeys(map(str, statuses)))

    def take(context: click.Context, _: click.Parameter, given: Sequence[tuple[str, str]]) -> None:
        """Called also where the option was not given."""
        for risk in risks:
            context.params[risk.argument] = risk.value([word for name, word in given if name == risk.name])
        if names.statuses:
            context.params["accepted"] = tuple(name for name, _ in given if name in names.statuses)

    return click.option(
        "--accept",
        type=names,
        multiple=True,
        help="\n".join([help, "", "\b", *names.explained]),
        expose_value=False,
        callback=take,
    )


class _Names(click.ParamType[tuple[str, str]]):
    """A name and the word behind it, empty where it takes none."""

    name = "accepted"

    def __init__(self, risks: Sequence[Risk], statuses: dict[str, None]) -> None:
        self.risks, self.statuses = {risk.name: risk for risk in risks}, statuses

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002  # as click asks
        return "NAME"

    @property
    def explained(self) -> Iterator[str]:
        """Each choice with its meaning, in lines for the second column of a help of 80 columns."""
        for risk in self.risks.values():
            yield from _lines(risk.spelled, risk.meaning)
        for status in self.statuses:
            yield from _lines(status, _OF_STATUSES[status])

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, is_given, word = value.partition("=")
        risk = self.risks.get(name)
        if risk is None and name not in self.statuses:
            self.fail(f"{name!r} is not one of {', '.join(self.choices)}", param, ctx)
        wanted = None if risk is None else risk.word
        if (wanted is not None) != bool(word) or (is_given and wanted is None):
            self.fail(f"{name} takes no word" if wanted is None else f"{name}={wanted} is needed", param, ctx)
        return name, word

    @property
    def choices(self) -> list[str]:
        """What may be typed."""
        return [*(risk.spelled for risk in self.risks.values()), *self.statuses]


def _lines(name: str, meaning: str) -> list[str]:
    return textwrap.wrap(f"{name}: {meaning}", width=46, subsequent_indent="  ")
