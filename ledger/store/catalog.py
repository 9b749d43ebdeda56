"""The queries of the product: SQL files whose header a machine reads.

A header is the first block of comments: `-- key: value` lines, continued by lines that are indented further.
`params` and `status` may be left out or `none`; the other keys are needed. A parameter whose type ends with `?`
may be left out and is null then; `>0` behind the type of a number says that it is above 0.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ledger.errors import InvalidValueError, UsageError
from ledger.facts.syncs import CAUSES
from ledger.facts.tables import TABLES
from ledger.words import is_unicode

_NEEDED = ("name", "answers", "grain", "reads", "columns")
_PARAMETER_TYPES: Mapping[str, type] = {"string": str, "bigint": int, "int": int, "boolean": bool}
_INTEGER_BITS: Mapping[str, int] = {"bigint": 63, "int": 31}
_COLUMN_TYPES = frozenset({*_PARAMETER_TYPES, "double"})
_KEY_LINE = re.compile(r"-- ([a-z]+): +(\S.*)")
_CREATED_VIEW = re.compile(r"^create or replace temporary view (\w+) as$", re.MULTILINE)
_READ = re.compile(r"\b(?:from|join)\s+(\w+)")
_CTE = re.compile(r"^(?:with (?:recursive )?)?(\w+) as \(\n(.*?)\n\)(?=,?\n)", re.MULTILINE | re.DOTALL)
"""Its name and ` as (` are on a line of their own, and so is its end."""
_COMMENT = re.compile(r"--.*")
_CONTINUATION = re.compile(r"-- {4,}(\S.*)")

Value = str | int | bool | None

VIEW_SUBJECTS = (
    "flows",
    "appends",
    "supersession",
    "maps",
    "lineage",
    "topics",
    "partitions",
    "permissions",
    "groups",
    "operations",
    "moves",
    "extras",
    "lag",
    "readings",
    "losses",
    "commits",
    "targets",
    "truncations",
    "causes",
    "differences",
)
"""Files of `ledger/views`, in the order in which they are read: a view reads earlier ones. `causes` is written here."""
BETWEEN_SUBJECTS = (
    "logs",
    "doubts",
    "copies",
    "routes",
    "links",
    "claims",
    "reads",
    "pieces",
    "places",
    "standing",
)
"""Those of answers between clusters, after the others. Each reads several of these, and most more than once: an engine
that puts a view's text where it is read would plan millions of them, so each has to be computed in its turn."""


def _texts(subjects: Iterable[str]) -> str:
    folder = Path(__file__).parent.with_name("views")
    return "\n".join(
        _CAUSES if subject == "causes" else folder.joinpath(f"{subject}.sql").read_text(encoding="utf-8")
        for subject in subjects
    )


_VALUES = [f"('{one.kind}', '{one.cause}', {one.is_unmatched})".lower() for one in CAUSES if one.cause]
_CAUSES = f"""-- Causes of gaps and offset syncs, and whether records have no counterpart at the other side.
create or replace temporary view causes as
select kind, cause, is_unmatched
from (values {", ".join(_VALUES)}) as c (kind, cause, is_unmatched);
"""


VIEWS = _texts(VIEW_SUBJECTS)
"""The views beside the tables, as SQL that each engine reads after its own `functions.sql`: what engines spell
differently."""


@dataclass(frozen=True, slots=True)
class Named:
    """A parameter or a column: a name and a Spark SQL type name; an optional parameter is null when left out."""

    name: str
    type: str
    is_optional: bool = False
    is_positive: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """One query: what its header says, and its text."""

    name: str
    answers: str
    grain: tuple[str, ...]
    reads: tuple[str, ...]
    params: tuple[Named, ...]
    columns: tuple[Named, ...]
    statuses: tuple[str, ...]
    sql: str

    @property
    def is_audit(self) -> bool:
        """An audit returns offending rows; none is a pass."""
        return self.name.startswith("audit_")

    @property
    def is_between_clusters(self) -> bool:
        """Whether it reads views that an engine has to compute in their turn (`BETWEEN_SUBJECTS`)."""
        return not set(names_between_clusters()).isdisjoint(self.reads)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.params)

    @property
    def stated_parameters(self) -> str:
        """The parameters as people read them, optional ones in brackets."""
        return ", ".join(f"[{found.name}]" if found.is_optional else found.name for found in self.params)

    def check(self, values: Mapping[str, Value]) -> None:
        """Raise `UsageError` unless `values` are the parameters, each of its type; optional ones may lack."""
        needed = {parameter.name for parameter in self.params if not parameter.is_optional}
        if not needed <= set(values) <= set(self.parameter_names):
            raise UsageError(
                f"query {self.name} takes {self.stated_parameters or 'no parameters'}, "
                f"got {', '.join(sorted(values)) or 'none'}; nothing was read"
            )
        for parameter in self.params:
            if parameter.name in values and not (parameter.is_optional and values[parameter.name] is None):
                _check_value(self.name, parameter, values[parameter.name])


def queries() -> Mapping[str, Query]:
    """All queries by name, in the order of names."""
    return _load(_folder())


def query(name: str) -> Query:
    """The query of that name."""
    known = queries()
    if name not in known:
        raise UsageError(f"no query {name!r}; known: {', '.join(known)}")
    return known[name]


def view_names() -> tuple[str, ...]:
    """The views beside the tables, as `VIEWS` makes them one after the other."""
    return tuple(_made_by(VIEW_SUBJECTS))


def names_between_clusters() -> tuple[str, ...]:
    """The views of answers between clusters, in their order, which read those of `VIEWS`."""
    return tuple(_made_by(BETWEEN_SUBJECTS))


def tables_of(relations: Iterable[str], given: Collection[str] = ()) -> frozenset[str]:
    """The tables among these relations, and those that the views among them read; of views that are `given` none."""
    return _read_by(relations, given).intersection(table.name for table in TABLES)


def views_of(relations: Iterable[str], given: Collection[str] = ()) -> Mapping[str, str]:
    """The statement that makes each view among these relations, and each that the views read, in their order.

    Not of what is `given`, nor of what that alone reads.
    """
    found = _read_by(relations, given).difference(given)
    return {name: text for name, text in _views().items() if name in found}


def times_read(query: Query) -> Mapping[str, int]:
    """How often each relation is read, by the query and by the views that it needs.

    What a CTE reads is read as often as the CTE: engines put its text wherever it is read.
    """
    return sum((relations_read(text) for text in (*views_of(query.reads).values(), query.sql)), Counter())


def relations_read(statement: str) -> Counter[str]:
    """The names that a statement reads from, but for those of its CTEs. A CTE reads those before it, or itself."""
    text = _COMMENT.sub("", statement)
    ctes = dict(_CTE.findall(text))
    found = Counter(_READ.findall(_CTE.sub("", text)))
    for name, select in reversed(ctes.items()):
        times = found.pop(name, 0)
        for relation in _READ.findall(select):
            if relation != name:
                found[relation] += times
    return found


def _read_by(relations: Iterable[str], given: Collection[str]) -> frozenset[str]:
    """These relations, and what the views among them read that are not `given`."""
    found = set(relations)
    views = _views()
    for name in reversed(tuple(views)):  # a view reads earlier ones
        if name in found and name not in given:
            found |= _names_read(views[name])
    return frozenset(found)


@cache
def _names_read(text: str) -> frozenset[str]:
    return frozenset(_READ.findall(text))


def _views() -> Mapping[str, str]:
    """The statement of each view, with the comments before it, in the order in which they are made."""
    return _made_by(VIEW_SUBJECTS + BETWEEN_SUBJECTS)


@cache
def _made_by(subjects: tuple[str, ...]) -> Mapping[str, str]:
    """The same of some files."""
    statements = [text for text in re.split(r"(?<=;)\n", _texts(subjects)) if text.strip()]
    return {_CREATED_VIEW.findall(statement)[0]: statement for statement in statements}


def parse_query(text: str) -> Query:
    """A query from the text of its file."""
    header = _header(text)
    if missing := [key for key in _NEEDED if key not in header]:
        raise InvalidValueError(f"a query's header lacks {', '.join(missing)}: {text.splitlines()[0]!r}")
    return Query(
        name=header["name"],
        answers=header["answers"],
        grain=_words(header["grain"]),
        reads=_words(header["reads"]),
        params=_parameters(header.get("params", "none")),
        columns=_named(header["columns"], _COLUMN_TYPES),
        statuses=_words(header.get("status", "none")),
        sql=text,
    )


def _header(text: str) -> dict[str, str]:
    header: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        if started := _KEY_LINE.fullmatch(line):
            key = started[1]
            header[key] = started[2].strip()
        elif key and (continued := _CONTINUATION.fullmatch(line)):
            header[key] += " " + continued[1].strip()
        else:
            break
    return header


def _words(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(word.strip() for word in text.split(","))


def _parameters(text: str) -> tuple[Named, ...]:
    bounded = frozenset({*_PARAMETER_TYPES, *(f"{type_}>0" for type_ in _INTEGER_BITS)})
    found = _named(text, bounded | {f"{type_}?" for type_ in bounded})
    return tuple(_parameter(one.name, one.type) for one in found)


def _parameter(name: str, stated: str) -> Named:
    needed = stated.removesuffix("?")
    return Named(
        name,
        needed.removesuffix(">0"),
        is_optional=needed != stated,
        is_positive=needed.endswith(">0"),
    )


def _named(text: str, types: frozenset[str]) -> tuple[Named, ...]:
    pairs = [tuple(word.split()) for word in _words(text)]
    if wrong := [pair for pair in pairs if len(pair) != 2 or pair[1] not in types]:
        raise InvalidValueError(f"a query's header names `name type`, with a known type, got {wrong}")
    return tuple(Named(name, type_) for name, type_ in pairs)


def _check_value(name: str, parameter: Named, value: Value) -> None:
    bits = _INTEGER_BITS.get(parameter.type, 0)
    least = 1 if parameter.is_positive else -(2**bits)
    is_of_type = type(value) is _PARAMETER_TYPES[parameter.type]
    if not is_of_type or (bits and isinstance(value, int) and not least <= value < 2**bits):
        stated = f"{parameter.type} above 0" if parameter.is_positive else parameter.type
        raise UsageError(
            f"parameter {parameter.name} of query {name} is a {stated}, got {value!r}; nothing was read"
        )
    if isinstance(value, str) and not is_unicode(value):
        raise UsageError(
            f"parameter {parameter.name} of query {name} is Unicode text, got {value!r}; nothing was read"
        )


@cache
def _load(folder: Path) -> Mapping[str, Query]:
    found = {}
    for file in sorted(folder.glob("*.sql")):
        parsed = parse_query(file.read_text(encoding="utf-8"))
        if parsed.name != file.stem:
            raise InvalidValueError(f"{file.name}: the header names {parsed.name!r}")
        found[parsed.name] = parsed
    return found


def _folder() -> Path:
    """`ledger/queries` of an installed package, else `queries` beside `ledger` in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "queries"
    return installed if installed.is_dir() else package.parent / "queries"
