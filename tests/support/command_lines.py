"""Commands as documents write them, compared with those that there are."""

import re
import shlex
import textwrap
from collections.abc import Iterator

import click

from ledger.cli.main import cli

_BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_CONTINUED = re.compile(r"(?: \\)?\n\s+")
_NAME = re.compile(r"[a-z][a-z-]*")
_ACCEPTED = re.compile(r"--accept ([a-z_]+(?:=\S+)?)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def command_lines(document: str) -> list[str]:
    """What follows `mirror-ledger` wherever a document's code has it, a line each; a deeper line continues one."""
    blocks = [textwrap.dedent(found[1]) for found in _BLOCK.finditer(document)]
    inline = [" ".join(found[1].split()) for found in _INLINE.finditer(_BLOCK.sub("", document))]
    logical = (line for text in (*blocks, *inline) for line in _CONTINUED.sub(" ", text).splitlines())
    return [line for text in logical for line in _invocations(text)]


def _invocations(text: str) -> Iterator[str]:
    """Each command of a line, without what a pipe, a redirection or the end of a substitution puts behind it."""
    for start in re.finditer(r"(?<![\w/.-])mirror-ledger ", text):
        yield _up_to_its_end(text[start.end() :])


def _up_to_its_end(text: str) -> str:
    depth = 0
    for at, char in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        if depth < 0 or (
            depth == 0 and (text[at : at + 3] == " | " or text[at : at + 3] == " > " or char == ";")
        ):
            return text[:at]
    return text


def problems(line: str) -> list[str]:
    """What of a command there is not: its name, or an option that it does not take."""
    return [problem for words in _alternatives(line.split()) for problem in _problems(words)]


def _alternatives(words: list[str]) -> Iterator[list[str]]:
    """`plan switchover|failover` is two commands."""
    bar = next((at for at, word in enumerate(words[:2]) if "|" in word), None)
    if bar is None:
        yield words
    else:
        for one in words[bar].split("|"):
            yield [*words[:bar], one, *words[bar + 1 :]]


def quoted_lines(message: str) -> list[str]:
    """What is to be typed, of the words of an error or an advice: each up to the first sign of a sentence."""
    word = r'(?:"[^"]*"|[\w./:-]*[\w/-])'
    return [one[1] for one in re.finditer(rf"mirror-ledger ({word}(?: {word})*)", message)]


def parsed_line(line: str) -> tuple[str, dict[str, object]]:
    """The name of a command and what its options and arguments are; raises where something that it needs is lacking."""
    command: click.Command = cli
    words = shlex.split(line)
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None, line
        command = found
    with command.make_context(command.name, words) as context:
        return str(command.name), dict(context.params)


def command_of(words: str) -> click.Command:
    """The command of a name, as `plan show`."""
    command: click.Command = cli
    for name in words.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(cli), name)
        assert found is not None, words
        command = found
    return command


def _problems(words: list[str]) -> list[str]:
    command: click.Command = cli
    known = set(options_of(cli)) | {"--help"}
    rest = [*words]
    while isinstance(command, click.Group) and rest and _NAME.fullmatch(rest[0]):
        found = command.get_command(click.Context(cli), rest[0])
        if found is None:
            return [f"no command {' '.join(words[: len(words) - len(rest) + 1])}"]
        command, rest = found, rest[1:]
        known |= options_of(command).keys()
    text = " ".join(rest)
    return [
        *(f"{command.name} has no {option}" for option in _OPTION.findall(text) if option not in known),
        *(problem for name in _ACCEPTED.findall(text) for problem in _not_accepted(command, name)),
    ]


def options_of(command: click.Command) -> dict[str, click.Parameter]:
    """By name what a command takes, without what only earlier versions' users know."""
    seen = [one for one in command.params if not getattr(one, "hidden", False)]
    return {option: parameter for parameter in seen for option in parameter.opts}


def _not_accepted(command: click.Command, name: str) -> Iterator[str]:
    """A name in small letters stands for itself; STATUS for any."""
    parameter = options_of(command).get("--accept")
    if parameter is None:
        return
    try:
        parameter.type.convert(name, parameter, None)
    except click.BadParameter as error:
        yield f"{command.name}: {error.message}"
