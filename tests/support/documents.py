"""The repository as data: its files, sections and tables of documents, and commands as they write them."""

import ast
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import click

from ledger.cli.main import cli
from tests.support.checkout import CHECKOUT

# -- Files -----------------------------------------------------------------------------------------

TOP_LEVEL = {
    *("pyproject.toml", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "Makefile", "LICENSE"),
    *("ledger", "jobs", "queries", "tests", "conf"),
}


def tracked() -> list[Path]:
    """What is in the repository, or would be with the next `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    paths = [CHECKOUT / name for name in sorted(set(listed.split("\0"))) if name]
    return [path for path in paths if path.is_file()]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def relative(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


def of_type(suffix: str, *folders: str) -> list[Path]:
    tops = folders or tuple(TOP_LEVEL)
    return [
        path for path in tracked() if path.suffix == suffix and path.relative_to(CHECKOUT).parts[0] in tops
    ]


# -- Documents -------------------------------------------------------------------------------------
# A definition is a list item that begins with a name in backticks or bold, or with several apart by commas, and runs
# up
# to the next item. Parts of it are items below it that begin with a label:
#
#     - `name`: its text,
#       continued
#       - Label: a part

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_NAMES = re.compile(r"`[^`]+`(?:, `[^`]+`)*|\*\*[^*]+\*\*")
_ITEM = re.compile(r"^( *)- (.+)$")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a list item says: its whole first paragraph, and its parts by label."""

    text: str
    parts: dict[str, str] = field(default_factory=dict)


def section(document: str, heading: str) -> str:
    """What is below a heading, up to the next one of its level or above. Fails where there is no such heading."""
    headings = list(_HEADING.finditer(_without_code(document)))
    start = next((one for one in headings if one[2] == heading), None)
    assert start, f"no heading {heading!r}"
    ends = [one.start() for one in headings if one.start() > start.start() and len(one[1]) <= len(start[1])]
    return document[start.end() : min(ends, default=len(document))]


LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]*)(?:#([\w-]+))?\)")
"""A link: the file that it names, and the anchor of a section."""
NAMED = re.compile(r'(?<![/\w`\[])(?:\[|`)*([A-Z]+\.md)`?(?:\]\([^)]*\))?,?\s+\(?"([^"]+)"')
"""A document and, in quotes, a section of it."""


_SECTION = re.compile(r"^(#+ |\*\*)(.+?)(?:[.:]?\*\*.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Place:
    """A section: its name, the character that it begins with, and its anchor, which only a heading has."""

    name: str
    start: int
    anchor: str | None


@cache
def places(document: str) -> tuple[Place, ...]:
    """By their headings, and by what paragraphs begin with in bold, in order."""
    return tuple(
        Place(one[2].replace("`", ""), one.start(), anchor(one[2]) if one[1].startswith("#") else None)
        for one in _SECTION.finditer(_without_code(document))
    )


def anchor(heading: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def fenced_parts(document: str) -> Iterator[tuple[bool, str]]:
    """The document in pieces: whether each is a block of code, and its text."""
    end = 0
    for block in _FENCED.finditer(document):
        yield False, document[end : block.start()]
        yield True, block[0]
        end = block.end()
    yield False, document[end:]


def prose(document: str) -> str:
    """The document without its code blocks and inline code; its lines keep their numbers."""
    return re.sub(r"`[^`]*`", lambda code: re.sub(r"[^\n]", " ", code[0]), _without_code(document))


def table_rows(text: str) -> list[tuple[str, ...]]:
    """Cells of the rows of all tables, their heads left out."""
    rows = [
        tuple(cell.strip() for cell in line.strip().strip("|").split(" | "))
        for line in _without_code(text).splitlines()
        if line.startswith("| ")
    ]
    rules = [number for number, row in enumerate(rows) if set("".join(row)) <= set("-: ")]
    heads = {number - 1 for number in rules}
    return [row for number, row in enumerate(rows) if number not in heads.union(rules)]


def definitions(text: str) -> dict[str, Definition]:
    """By name what the lists of a text define, in order. Fails where a name is defined twice."""
    found: dict[str, Definition] = {}
    for item, parts in _items(text):
        names = _NAMES.match(item)
        if names is None:
            continue
        labelled = [part.partition(": ") for part in parts]
        defined = Definition(
            item[names.end() :].lstrip(": "), {label: part for label, colon, part in labelled if colon}
        )
        for name in re.findall(r"[^`*]+", names[0].replace("`, `", "``")):
            assert name not in found, f"{name} is defined twice"
            found[name] = defined
    return found


def _items(text: str) -> Iterator[tuple[str, list[str]]]:
    """The items of all lists, each as one line, with the items below it."""
    items: list[tuple[str, list[str]]] = []
    for line in _without_code(text).splitlines():
        item = _ITEM.match(line)
        if item and not item[1]:
            items.append((item[2], []))
        elif item and items:
            items[-1][1].append(item[2])
        elif line.startswith("  ") and items:
            first, parts = items[-1]
            if parts:
                parts[-1] += f" {line.strip()}"
            else:
                items[-1] = (f"{first} {line.strip()}", parts)
    return iter(items)


def _without_code(document: str) -> str:
    """With spaces in place of code blocks, so that offsets and line numbers stay."""
    return _FENCED.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), document)


# -- Commands in documents -------------------------------------------------------------------------

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
    """The name of a command and what its options and arguments are; raises where something that it needs is lacking.

    An option that a person at a terminal is asked for, such as `--reason`, may be lacking.
    """
    command: click.Command = cli
    words = shlex.split(line)
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None, line
        command = found
    typed = {word.partition("=")[0] for word in words}
    for option in command.params:
        if isinstance(option, click.Option) and option.prompt and not typed.intersection(option.opts):
            words += [option.opts[0], "asked at a terminal"]
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
    """By name what a command takes."""
    return {option: parameter for parameter in command.params for option in parameter.opts}


def _not_accepted(command: click.Command, name: str) -> Iterator[str]:
    """A name in small letters stands for itself; STATUS for any."""
    parameter = options_of(command).get("--accept")
    if parameter is None:
        return
    try:
        parameter.type.convert(name, parameter, None)
    except click.BadParameter as error:
        yield f"{command.name}: {error.message}"
