"""Reference parts of documents, made of what they repeat: classes, commands, headers of queries.

    make references

writes them, and the picture of the speeds; a test says which is out of date. A part stands between two comments that
name it and the place where it is to be changed. What a member of an enumeration means is the docstring below it.
"""

import ast
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TypeVar

import click

from ledger import errors
from ledger.answers.drivers import DriverState
from ledger.cli.main import cli
from ledger.doctor.checks import OF_TROUBLE, Check, Verdict
from ledger.errors import Trouble
from ledger.facts.every_kind import EVERY_KIND
from ledger.facts.findings import EXPLAINED, FindingName
from ledger.facts.operations import OperationContent, OperationKind
from ledger.facts.syncs import CAUSES
from ledger.facts.tables import STAMP, TABLES, Column
from ledger.mirror import stops
from ledger.mirror.assignment import StopCause
from ledger.offsets import setting
from ledger.offsets.statuses import TranslationStatus
from ledger.store import catalog
from tests.benchmarks import latency, mirror_speed
from tests.benchmarks.kept import kept, measured
from tests.benchmarks.mirror_speed import BY_NAME, MIRRORS, kept_results
from tests.support.checkout import CHECKOUT

Member = TypeVar("Member", bound=Enum)
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Reference:
    """A part of a document; `source` is where a change of it is to be made, `lines` how it reads by now."""

    document: str
    name: str
    source: str
    lines: Callable[[], Iterable[str]]

    def placed_in(self, text: str) -> str:
        """The document with this part as it reads by now; raises `ValueError` where it has no place for it."""
        place = re.compile(
            rf"^<!-- {re.escape(self.name)}: [^\n]* -->\n.*?^<!-- end of {re.escape(self.name)} -->$",
            re.MULTILINE | re.DOTALL,
        )
        if len(place.findall(text)) != 1:
            raise ValueError(f"{self.document} has no one place for {self.name!r}")
        made = "\n".join((self._head, *self.lines(), f"<!-- end of {self.name} -->"))
        return place.sub(lambda _: made, text)

    @property
    def _head(self) -> str:
        return f"<!-- {self.name}: written by `make references` from {self.source} -->"


# Forms --------------------------------------------------------------------------------------------


def item(text: str, parts: Mapping[str, str | None] | None = None) -> Iterator[str]:
    """An item of a list, and below it its parts by label; a part that is None is left out."""
    yield from _folded(f"- {text}", indent="  ")
    for label, part in (parts or {}).items():
        if part is not None:
            yield from _folded(f"  - {label}: {part}", indent="    ")


def table(*rows: Iterable[str]) -> Iterator[str]:
    """A table whose first row is its head."""
    for number, row in enumerate(rows):
        cells = list(row)
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{'|'.join(' --- ' for _ in cells)}|"


def _folded(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, width=_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def meanings(members: type[Member]) -> dict[Member, str]:
    """By member the docstring below it, in one line; raises `KeyError` where a member has none."""
    [declared] = ast.parse(textwrap.dedent(inspect.getsource(members))).body
    assert isinstance(declared, ast.ClassDef)
    found = {
        member.targets[0].id: _one_line(below.value.value)
        for member, below in zip(declared.body, declared.body[1:], strict=False)
        if isinstance(member, ast.Assign) and isinstance(member.targets[0], ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }
    return {member: found[member.name] for member in members}


def _one_line(docstring: str | None) -> str:
    return " ".join((docstring or "").split())


def begun(text: str) -> str:
    """A sentence as the continuation of another one: without its capital, unless it begins with a name."""
    is_name = text[1:2].isupper() or text.startswith("`")
    return text if is_name else text[:1].lower() + text[1:]


# What doctor checks -------------------------------------------------------------------------------


def _verdicts() -> Iterator[str]:
    stated = (
        (f"`{verdict}`", begun(meaning).removesuffix(".")) for verdict, meaning in meanings(Verdict).items()
    )
    return table(("verdict", "meaning"), *stated)


def _troubles() -> Iterator[str]:
    for trouble, meaning in meanings(Trouble).items():
        yield from item(meaning, {"To do": OF_TROUBLE[trouble]})


def _checks() -> Iterator[str]:
    for check, meaning in meanings(Check).items():
        said = re.fullmatch(
            r"(Machine|Ledger|Cluster|Broker|Flow): (.*?\?.*?)(?: Failed: (.*?)\.)?(?: Warning: (.*)\.)?",
            meaning,
        )
        assert said, f"{check} does not say what it asks of what"
        yield from item(f"`{check}` ({said[1].lower()}): {said[2]}", {"Failed": said[3], "Warning": said[4]})


# What operators read ------------------------------------------------------------------------------


def _exit_codes() -> Iterator[str]:
    yield from item("`0`: done, or nothing to do.")
    for error in vars(errors).values():
        if isinstance(error, type) and "exit_code" in vars(error):
            stated = re.search(rf"Exit code {vars(error)['exit_code']}: (.*)$", _one_line(error.__doc__))
            assert stated, f"{error} does not say what its exit code means"
            yield from item(f"`{vars(error)['exit_code']}`: {stated[1]}")


def _stop_causes() -> Iterator[str]:
    for cause, meaning in meanings(StopCause).items():
        yield from item(f"`{cause}`: {begun(meaning)}", {"To do": stops.ADVICE[cause].words})


def _findings() -> Iterator[str]:
    for name in FindingName:
        yield from item(f"`{name}`: {EXPLAINED[name].meaning}", {"To do": EXPLAINED[name].next})


def _driver_states() -> Iterator[str]:
    for state, meaning in meanings(DriverState).items():
        what, _, to_do = meaning.partition(" To do: ")
        yield from item(f"`{state}`: {begun(what)}", {"To do": to_do.removesuffix(".") or None})


def _outcomes() -> Iterator[str]:
    for outcome, meaning in meanings(setting.Outcome).items():
        yield from item(f"`{outcome}`: {begun(meaning)}", {"To do": setting.ADVICE.get(outcome)})


def _statuses() -> Iterator[str]:
    rows = (
        (f"`{status}`", *_when_and_where(meaning), _in_a_reset_file(status))
        for status, meaning in meanings(TranslationStatus).items()
    )
    return table(("status", "when", "target offset", "in a reset file"), *rows)


def _when_and_where(meaning: str) -> tuple[str, str]:
    when, _, where = meaning.partition(" Target offset: ")
    return begun(when).removesuffix("."), where.removesuffix(".")


def _in_a_reset_file(status: TranslationStatus) -> str:
    if status in setting.WITHOUT_OFFSET:
        return "no"
    return "accept" if status in setting.ACCEPTABLE else "yes"


# Commands -----------------------------------------------------------------------------------------

_OF_MANY = 5
"""An option of so many commands is explained once."""


def _commands() -> Iterator[str]:
    stated = list(_leaves(cli, click.Context(cli, info_name="mirror-ledger")))
    counted = Counter(_explained(option) for _, command in stated for option in _options(command))
    of_many = {explained for explained, count in counted.items() if count >= _OF_MANY}
    yield from ("## Options of many commands", "")
    for explained in sorted(of_many.union(map(_explained, _options(cli)))):
        yield from item(explained)
    for context, command in stated:
        usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
        yield from ("", f"## `{usage}`", "")
        yield from _folded(_one_line(command.help), "")
        own = [option for option in _options(command) if _explained(option) not in of_many]
        others = [_named(option) for option in _options(command) if option not in own]
        yield from ("",) if own or others else ()
        for option in own:
            yield from item(_explained(option).replace(_names(option), _named(option), 1))
        yield from item(f"of many commands: {', '.join(others)}") if others else ()


def _leaves(command: click.Command, context: click.Context) -> Iterator[tuple[click.Context, click.Command]]:
    """All commands that do something, each with the context that knows its path."""
    if not isinstance(command, click.Group):
        yield context, command
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found
        yield from _leaves(found, click.Context(found, info_name=name, parent=context))


def _options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option) and not one.hidden]


def _names(option: click.Option) -> str:
    return f"`{', '.join(option.opts)}`"


def _named(option: click.Option) -> str:
    return f"{_names(option)} (required)" if option.required else _names(option)


def _explained(option: click.Option) -> str:
    """What an option is for, which values it takes, and its default."""
    assert option.help, f"{option.opts} says nothing"
    takes = getattr(option.type, "choices", ())
    choices = f" One of {', '.join(f'`{one}`' for one in takes)}." if takes else ""
    default = option.to_info_dict().get("default")
    given = isinstance(default, str | int | float) and not option.is_flag and default != 0
    said = _one_line(option.help.partition("\b")[0])
    return f"{_names(option)}: {said}{choices}{f' Default: {default}.' if given else ''}"


# Tables -------------------------------------------------------------------------------------------


def _columns(columns: Sequence[Column]) -> Iterator[str]:
    """A row for each; the type of an array of structs stands below the table."""
    long = {one.name: one.type for one in columns if one.type.startswith("array<struct<")}
    rows = (
        (
            f"`{one.name}`",
            "`array<struct<...>>`" if one.name in long else f"`{one.type}`",
            "yes" if one.nullable else "no",
            one.meaning,
        )
        for one in columns
    )
    yield from table(("column", "type", "null", "meaning"), *rows)
    for name, type_ in long.items():
        yield from ("", f"`{name}` is an `{type_}`.")


def _gap_causes() -> Iterator[str]:
    said = (f"`{one.cause}`{'*' * one.is_unmatched}: {one.meaning}" for one in CAUSES if one.kind == "gap")
    return item(f"{'; '.join(said)}.")


def _of_tables() -> Iterator[Reference]:
    place = ("ledger/PROTOCOL.md", "ledger/facts/tables.py")
    yield Reference(place[0], "columns of every table", place[1], partial(_columns, STAMP))
    for one in TABLES:
        own = one.columns[len(STAMP) :]
        yield Reference(place[0], f"columns of {one.name}", place[1], partial(_columns, own))


# Kinds of operations ------------------------------------------------------------------------------

_PARTS = {
    OperationKind.STOP: "Requests of operators",
    OperationKind.DRIVER_STARTING: "Other actions of operators",
    OperationKind.PLAN: 'Changes of direction ("Plans")',
    OperationKind.RECEIPT: "Events of drivers and recorders",
    OperationKind.LEDGER_REPAIRED: "Of the ledger itself",
}
"""By the first kind of a part."""


def _kinds() -> Iterator[str]:
    above = ""
    for kind in OperationKind:
        if kind in _PARTS:
            yield from ("", f"**{_PARTS[kind]}:**", "")
        content = EVERY_KIND[kind]
        stated = _one_line(content.__doc__).partition(" Keys: ")[0]
        keys = _keys(content)
        yield from item(f"`{kind}`: {begun(stated)}", {"Keys": "as above" if keys == above else keys})
        above = keys


def _keys(content: type[OperationContent]) -> str:
    """What the class, or the nearest base that does, says of the keys."""
    stated = (_one_line(one.__doc__).partition(" Keys: ")[2] for one in content.__mro__)
    return next(keys.removesuffix(".") for keys in stated if keys)


# Queries ------------------------------------------------------------------------------------------


def _queries() -> Iterator[str]:
    yield from _stated_queries(is_audit=False)
    yield from ("", "Audits:", "")
    yield from _stated_queries(is_audit=True)


def _stated_queries(*, is_audit: bool) -> Iterator[str]:
    for query in catalog.queries().values():
        if query.is_audit is is_audit:
            stated = f" Parameters: {query.stated_parameters}." if query.params else ""
            yield from item(f"`{query.name}`: {query.answers}{stated}")


def _rounded(figure: float) -> str:
    return f"{float(f'{figure:.3g}'):,.0f}"


def _speeds() -> Iterator[str]:
    """Of all cases: medians beside MirrorMaker 2, of a task alone, and of its appends."""
    found = kept_results()
    of_both = ("first (s)", "CPU (s)", "MB")
    head = ["records a second", *MIRRORS[:2], "times; second half", "a task", "appends", *of_both]
    rows: list[list[str]] = []
    for case in BY_NAME:
        if any((case, name) not in found for name in MIRRORS):
            continue
        ours, theirs, alone, appends = (found[case, name] for name in MIRRORS)
        times = f"{ours.rate / theirs.rate:.1f}; {ours.second_rate / theirs.second_rate:.1f}"
        rates = [
            _rounded(ours.rate),
            _rounded(theirs.rate),
            times,
            _rounded(alone.rate),
            _rounded(appends.rate),
        ]
        costs = [
            f"{ours.first_s:.1f}; {theirs.first_s:.1f}",
            f"{ours.cpu_s:.1f}; {theirs.cpu_s:.1f}",
            f"{ours.peak_mb:,.0f}; {theirs.peak_mb:,.0f}",
        ]
        rows.append([BY_NAME[case].words, *rates, *costs])
    yield from table(head, *rows)
    yield ""
    words = (
        "Medians of runs in turn, of whole mirrors with all that they record; the first record from the start of the "
        "process on; CPU from that record on, by the million; memory as the sum of the peaks of all processes. "
        "MirrorMaker 2 of Kafka 4.3 is tuned for large batches, with -Xmx1g."
    )
    yield from _folded(f"{measured(mirror_speed.KEPT)} {words}", indent="")


_COMPARED = ("100", "1024", "zstd", "tiny-100", "far-1024", "sustained")
"""Cases of the short table, of which the second one tells what a mirror costs."""


def _compared() -> Iterator[str]:
    """Both mirrors and the factor between them, of the cases that were measured."""
    found = kept_results()
    both = {
        case: (found[case, MIRRORS[0]], found[case, MIRRORS[1]])
        for case in _COMPARED
        if (case, MIRRORS[0]) in found and (case, MIRRORS[1]) in found
    }
    rows = [
        (
            BY_NAME[case].words,
            f"{_rounded(ours.rate)}/s",
            f"{_rounded(theirs.rate)}/s",
            [ours.rate / theirs.rate],
        )
        for case, (ours, theirs) in both.items()
    ]
    rows += _compared_waits()
    factors = [" and ".join(f"{factor:.1f}" for factor in row[3]) for row in rows]
    cells = [(*row[:3], factor) for row, factor in zip(rows, factors, strict=True)]
    yield from table(("case", *MIRRORS[:2], "factor"), *cells)
    yield ""
    ours, theirs = both[_COMPARED[1]]
    factor, least = min((min(row[3]), row[0].partition(":")[0]) for row in rows)
    quicker = ", where MirrorMaker 2 is quicker" if factor < 1 else ""
    sentences = (
        f"The least factor is {factor:.1f} ({least}){quicker}.",
        f"The first record of 1 KiB arrives {ours.first_s:.1f} s after the start, "
        f"in MirrorMaker 2 after {theirs.first_s:.1f} s.",
        f"A million of them take {ours.cpu_s:.1f} s of CPU (MirrorMaker 2: {theirs.cpu_s:.1f} s).",
        f"Memory at its peak is {ours.peak_mb:,.0f} MB (MirrorMaker 2: {theirs.peak_mb:,.0f} MB).",
        f"{measured(mirror_speed.KEPT)} Medians of complete mirrors in turn; MirrorMaker 2 is set for large batches "
        "([all](ledger/OPERATIONS.md#how-fast-it-copies)).",
    )
    yield from _folded(" ".join(sentences), indent="")


def _compared_waits() -> Iterator[tuple[str, str, str, list[float]]]:
    """How long records wait; of several ways to set MirrorMaker 2 the last one, which is set for that."""
    paced = [one for one in kept(latency.KEPT) if one["case"] == "0 1000 0"]
    idle = [one for one in kept(latency.KEPT, "first_seconds") if one["case"] == "1000 after 15 s, 0 beside"]
    for words, found in (("latency at 1,000/s", paced), ("first second after 15 s of silence", idle)):
        if found:
            ours, theirs = found[0], found[-1]
            _, _, settings = theirs["mirror"].partition(", ")
            yield (
                f"{words}: p50, p99{f', there {settings}' if settings else ''}",
                f"{ours['p50']:,.1f} and {ours['p99']:,.1f} ms",
                f"{theirs['p50']:,.1f} and {theirs['p99']:,.1f} ms",
                [theirs[name] / ours[name] for name in ("p50", "p99")],
            )


def _waits() -> Iterator[str]:
    """By pace, linger and what runs beside: of both mirrors how long records wait, and what that costs."""
    found = {(one["case"], one["mirror"]): one for one in kept(latency.KEPT)}
    head = ["records a second, linger", "p50", "p99", "p99.9", "cores of the mirror", "of the brokers"]
    fields = {"p50": 1, "p99": 1, "p999": 1, "mirror_cores": 2, "broker_cores": 2}
    rows: list[list[str]] = []
    for case in dict.fromkeys(case for case, _ in found):
        linger, pace, beside = case.split()
        both = [found[case, name] for name in (latency.OURS, latency.THEIRS)]
        cells = ["; ".join(f"{one[name]:,.{places}f}" for one in both) for name, places in fields.items()]
        taken = "" if beside == "0" else ", a core taken"
        rows.append([f"{int(pace):,}, {linger} ms{taken}", *cells])
    yield from table(head, *rows)
    yield ""
    yield from _folded(f"{measured(latency.KEPT)} Medians of runs in turn.", indent="")


REFERENCES = (
    Reference("ledger/CHECKS.md", "verdicts", "ledger/doctor/checks.py", _verdicts),
    Reference("ledger/CHECKS.md", "causes", "ledger/errors.py and ledger/doctor/checks.py", _troubles),
    Reference("ledger/CHECKS.md", "checks", "ledger/doctor/checks.py", _checks),
    Reference("ledger/COMMANDS.md", "commands", "the commands in ledger/cli", _commands),
    Reference("ledger/OPERATIONS.md", "driver states", "ledger/answers/drivers.py", _driver_states),
    Reference("ledger/OPERATIONS.md", "statuses", "ledger/offsets/statuses.py", _statuses),
    Reference("ledger/OPERATIONS.md", "results", "ledger/offsets/setting.py", _outcomes),
    Reference("ledger/OPERATIONS.md", "exit codes", "ledger/errors.py", _exit_codes),
    Reference(
        "ledger/OPERATIONS.md",
        "causes",
        "ledger/mirror/assignment.py and ledger/mirror/stops.py",
        _stop_causes,
    ),
    Reference("ledger/OPERATIONS.md", "speeds", "tests/benchmarks/mirror_speed.json", _speeds),
    Reference("ledger/OPERATIONS.md", "waits", "tests/benchmarks/latency.json", _waits),
    Reference("ledger/OPERATIONS.md", "findings", "ledger/facts/findings.py", _findings),
    *_of_tables(),
    Reference("ledger/PROTOCOL.md", "gap causes", "ledger/facts/syncs.py", _gap_causes),
    Reference("ledger/PROTOCOL.md", "kinds", "the classes in ledger/facts/every_kind.py", _kinds),
    Reference("README.md", "speeds", "tests/benchmarks/*.json", _compared),
    Reference("queries/README.md", "queries", "the headers of queries/*.sql", _queries),
)
DOCUMENTS = tuple(dict.fromkeys(reference.document for reference in REFERENCES))


def written_anew(document: str) -> str:
    """The document as it reads with its reference parts of now."""
    text = (CHECKOUT / document).read_text(encoding="utf-8")
    for reference in REFERENCES:
        if reference.document == document:
            text = reference.placed_in(text)
    return text


if __name__ == "__main__":
    for name in DOCUMENTS:
        (CHECKOUT / name).write_text(written_anew(name), encoding="utf-8")
    mirror_speed.PICTURE.write_text(mirror_speed.drawn(), encoding="utf-8")
