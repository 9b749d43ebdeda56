"""`Ledger`: the ledger at one cut, and every question that can be asked of it."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ledger.answers import elsewhere, printed
from ledger.answers.elsewhere import SealedLedger, sealed
from ledger.answers.values import Answer, Audit, FlowRequest, Place, mapping, place, row_class
from ledger.clock import SystemClock
from ledger.config.file import find_config, load_config
from ledger.config.mirror import MirrorConfig
from ledger.config.values import objections
from ledger.errors import InvalidValueError, UsageError
from ledger.facts.cuts import Cut
from ledger.facts.ways import Direction
from ledger.offsets import between_clusters
from ledger.offsets.between_clusters import Chosen
from ledger.store import answers, catalog
from ledger.store.catalog import Named, Query, Value
from ledger.store.snapshots import DeltaSnapshot, parse_time
from ledger.words import instant, is_unicode

if TYPE_CHECKING:  # most questions are about no flow's state, and would wait for all that tells it
    from duckdb import DuckDBPyConnection

    from ledger.answers.anchored import Anchored
    from ledger.answers.flow_values import PartitionLag, PartitionLoss, Status

# Asked --------------------------------------------------------------------------------------------
# What questions are made of, checked before anything is read: bad values are errors of ours, whoever calls.


AsOf: TypeAlias = str | int | datetime | None
"""A time (ISO-8601 with an offset, milliseconds since the epoch, or a `datetime` with a zone), an operation id, a cut
token; None: now."""


def text(name: str, value: object) -> str:
    """Raises `UsageError` for what is no text, or none that UTF-8 can write: no row can be equal to it."""
    if not isinstance(value, str) or not is_unicode(value):
        raise UsageError(f"{name} is Unicode text, got {value!r}; nothing was read")
    return value


def whole_number(name: str, value: object) -> int:
    if type(value) is not int:
        raise UsageError(f"{name} is a whole number, got {value!r}; nothing was read")
    return value


def as_of_text(as_of: AsOf) -> str | None:
    """As `--as-of` has it."""
    if as_of is None:
        return None
    if isinstance(as_of, datetime):
        return as_of.isoformat()
    return text("as_of", as_of) if isinstance(as_of, str) else str(whole_number("as_of", as_of))


def chosen(
    groups: Sequence[str], topic: str | None, partition: int | None, flow: str | None = None
) -> Chosen:
    """Raises `UsageError` for a partition without its topic, too."""
    if isinstance(groups, str):
        raise UsageError(f"groups is a list of names, got the text {groups!r}; nothing was translated")
    for group in groups:
        text("a group", group)
    if topic is not None:
        text("topic", topic)
    if partition is not None:
        whole_number("partition", partition)
        if topic is None:
            raise UsageError("a partition needs its topic; nothing was translated")
    if flow is not None:
        text("flow", flow)
    return Chosen(tuple(groups), topic, partition, flow)


def time_ms(at: AsOf) -> int:
    """A time, and no other cut, in milliseconds since the epoch."""
    at_ms = parse_time(as_of_text(at) or "")
    if at_ms is None or not 0 <= at_ms < 2**63:
        raise UsageError(
            f"{at!r} is no time (ISO-8601 with an offset, or milliseconds since the epoch); nothing was translated"
        )
    return at_ms


# Sql ----------------------------------------------------------------------------------------------
# Statements of one's own: what the relation `params` has for them.


_NAME = re.compile(r"\w+")
_BIGINTS = 2**63


def declared_in(statements: str) -> Query | None:
    """The query that a file is, when it has the header of one."""
    try:
        return catalog.parse_query(statements) if statements.startswith("-- name:") else None
    except InvalidValueError as error:
        raise UsageError(f"{error}; nothing was carried out") from error


def named_by_values(values: Mapping[str, Value]) -> tuple[Named, ...]:
    """Columns of `params` for a text without a header: text is string, whole numbers are bigint.

    Raises `UsageError` for a name that SQL could not read without quotes, and a value that none of these types has.
    """
    if strange := [name for name in values if not _NAME.fullmatch(name)]:
        raise UsageError(
            f"a parameter's name has letters, digits and underscores, got {strange[0]!r}; nothing was read"
        )
    return tuple(Named(name, _type_of(name, value)) for name, value in values.items())


def _type_of(name: str, value: Value) -> str:
    if isinstance(value, bool):
        return "boolean"
    if not isinstance(value, int):
        text(f"parameter {name}", value)
        return "string"
    if not -_BIGINTS <= value < _BIGINTS:
        raise UsageError(f"parameter {name} is a bigint, got {value!r}; nothing was read")
    return "bigint"


# Audits -------------------------------------------------------------------------------------------


def audits_of(rows: Mapping[str, int], since: Cut | None) -> tuple[Audit, ...]:
    """Every audit of the catalog with the rows that it found, and those that were left out."""
    token = None if since is None else since.token
    names = (query.name for query in catalog.queries().values() if query.is_audit)
    return tuple(Audit.of(name, rows.get(name), token) for name in names)


# Ledger -------------------------------------------------------------------------------------------


AT = "at_ms"
"""A parameter of queries: the instant that is asked about; where it may be left out it is that of the cut then."""
_FROM = ("first_ms", "since_ms")
"""Parameters of queries: the instant from which on facts are asked for."""
VIEWS: Mapping[str, Callable[[DeltaSnapshot], str]] = {
    "duckdb": elsewhere.for_duckdb,
    "spark": elsewhere.for_spark,
}
"""By engine, what makes the ledger's tables and views there."""
PRINTED: Mapping[str, Callable[[DeltaSnapshot, Sequence[Query], Cut | None], str]] = {
    "duckdb": printed.for_duckdb,
    "spark": printed.for_spark,
}
"""By engine, what answers queries there."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger at one cut: all that it answers comes from the same rows, whatever is appended meanwhile.

    Made by `open`. Nothing is held open, so nothing has to be closed. `as_of` None: its cut is that of `opened_at_ms`;
    only then is anything asked about processes, and ages are counted to that time.
    """

    config: MirrorConfig
    snapshot: DeltaSnapshot
    as_of: str | None
    opened_at_ms: int

    @classmethod
    def open(
        cls, config: str | os.PathLike[str] | MirrorConfig | None = None, *, as_of: AsOf = None
    ) -> "Ledger":
        """The ledger of a configuration file; None: the one that `MIRROR_LEDGER_CONFIG` names.

        Raises `ConfigurationError`, `SetupError` where there is no ledger, and `UsageError` for a cut that it does not
        have: before its beginning, to come, of another ledger, or no cut at all.
        """
        if not isinstance(config, MirrorConfig):
            config = load_config(find_config(None, os.environ) if config is None else Path(config))
        asked = as_of_text(as_of)
        opened_at_ms = SystemClock().now_ms()
        return cls(config, answers.snapshot(config, asked), asked, opened_at_ms)

    def at(self, as_of: AsOf) -> "Ledger":
        """The same ledger at another cut; None: what is recorded by now."""
        return Ledger.open(self.config, as_of=as_of)

    @property
    def cut(self) -> str:
        """The token that names the rows behind every answer: `at` takes it, on a copy of the ledger too."""
        return self.snapshot.cut.token

    @property
    def at_ms(self) -> int:
        """What ages are counted to: the instant that was asked about, or when the last row of the cut was recorded."""
        if self.as_of is None:
            return self.opened_at_ms
        asked_ms = parse_time(self.as_of)
        return self.snapshot.last_recorded_at_ms() if asked_ms is None else asked_ms

    # Offsets -------------------------------------------------------------------------------------

    def translate(
        self,
        from_cluster: str | None = None,
        to_cluster: str | None = None,
        *,
        flow: str | None = None,
        groups: Sequence[str] = (),
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        at: AsOf = None,
    ) -> Answer[Place]:
        """Where groups of one cluster continue at another: at the first record that they have not read, by all flows.

        With a flow: in what it copies, from its source to its target, so that the clusters need not be named. Of these
        groups (none: all), a topic, a partition of it; with an offset, too: where a group continues that has read all
        below it. `at`: a time; beside each place what it would skip and repeat to continue at that time's offset.
        Partitions without a commit are rows too, of topics on which the group has one. Raises `UsageError` for what the
        ledger does not know, and `PreconditionError` where there is nothing to answer from.
        """
        for cluster in (from_cluster, to_cluster):
            if cluster is not None:
                text("a cluster", cluster)
        wanted = chosen(groups, topic, partition, flow)
        at_ms = None if at is None else time_ms(at)
        way = between_clusters.asked_way(self.config, self.snapshot, from_cluster, to_cluster, flow)
        if offset is None:
            found = between_clusters.translate_groups(
                self.snapshot, way, wanted, at_ms=at_ms, outputs=self.config.outputs_of_groups
            )
        else:
            whole_number("offset", offset)
            found = between_clusters.translate_offset(self.snapshot, way, wanted, offset, at_ms=at_ms)
        return Answer(found, place)

    def old_commits(self, cluster: str) -> str | None:
        """In words since when nobody has recorded commits of a cluster; None: they are as new as they can be.

        What is translated of groups goes by them. Nothing is said of a cluster that was never recorded.
        """
        from ledger.offsets.restored import old_commits

        return old_commits(self.config, self.snapshot, text("a cluster", cluster), at_ms=self.at_ms)

    # Flows ---------------------------------------------------------------------------------------

    def status(self, *flows: str, differences: bool = False) -> "Status":
        """Where flows of the configuration stand, why, and what to do next; none named: all of them.

        With `differences` also what is not the same at both sides, counted by topic and cause.
        """
        from ledger.answers.flow_status import maintenance_behind, open_apply, report_flow, status_figures
        from ledger.answers.flow_values import Status

        names = [self.config.flow(flow).name for flow in flows] or list(self.config.flows)
        is_now = self.as_of is None
        at_ms = self.at_ms
        reports = tuple(
            report_flow(self.config, self.snapshot, name, at_ms=at_ms, is_now=is_now, differences=differences)
            for name in names
        )
        figures = status_figures(self.config, self.snapshot, reports, at_ms=at_ms)
        return Status(
            reports,
            tuple(maintenance_behind(self.config)) if is_now else (),
            tuple(words for _, words in objections(self.config.allowed, figures)),
            open_apply(self.snapshot, at_ms=at_ms, is_now=is_now, flows=flows),
            at_ms,
            figures,
        )

    def anchored(self) -> "Anchored | None":
        """When heads were last written to the anchor, whatever the cut; None: the configuration names none."""
        from ledger.answers.anchored import last_anchored

        return last_anchored(self.config)

    def lag(self, flow: str) -> "Answer[PartitionLag]":
        """How much of each source partition is not on the target, and as of when."""
        from ledger.answers.flow_values import partition_lag

        return Answer(self.query("replication_lag", flow=flow).table, partition_lag)

    def failover_loss(
        self, from_cluster: str, to_cluster: str, *, at: AsOf = None
    ) -> "Answer[PartitionLoss]":
        """What would be lost, partition by partition, if the first cluster were lost and the other took over.

        `at`: the time to which what has come since is estimated; None: that of the question. Raises `UsageError` for
        clusters that the ledger does not know, and `PreconditionError` where there is nothing to answer from.
        """
        from ledger.answers.flow_values import partition_loss

        way = Direction(text("a cluster", from_cluster), text("a cluster", to_cluster))
        between_clusters.require_direction(self.config, self.snapshot, way)
        params = {"from_cluster": from_cluster, "to_cluster": to_cluster}
        at_ms = self.at_ms if at is None else time_ms(at)
        return Answer(self.query("failover_loss", at_ms=at_ms, **params).table, partition_loss)

    def requests(self, flow: str) -> Answer[FlowRequest]:
        """What was done to a flow, in the order of recording, and what became of requests to its driver."""
        return Answer(self.query("flow_operations", flow=flow).table, FlowRequest)

    # Queries and statements ------------------------------------------------------------------------

    @staticmethod
    def queries() -> Mapping[str, Query]:
        """The queries of the catalog by name: what each answers, its parameters and columns."""
        return catalog.queries()

    def query(self, name: str, /, **params: Value) -> Answer[Any]:
        """The answer of a query of the catalog; its rows are frozen, with the query's columns as fields.

        `fresh_since_ms` is found out where it is left out, of a flow that is configured; `at_ms` is that of the cut.
        """
        wanted = catalog.query(name)
        found = answers.run_query(self.snapshot, name, self.filled_in(wanted, params))
        return Answer(found, row_class(wanted))

    def cut_since(self, since: AsOf) -> Cut:
        """What `since` names, to be audited from there on; raises `UsageError` where it is later than this cut."""
        return answers.cut_since(self.config, self.snapshot, as_of_text(since) or "")

    def query_since(self, name: str, since: AsOf) -> Answer[Any]:
        """The rows that an audit finds in what came after a cut, as `audit` counts them.

        Raises `UsageError` for a query that is no audit, and for the one that needs all rows.
        """
        wanted = catalog.query(name)
        cut = self.range_since(wanted, since)
        return Answer(answers.run_audit(self.snapshot, wanted, cut), row_class(wanted))

    def range_since(self, wanted: Query, since: AsOf) -> Cut:
        """From which cut on an audit is asked about; raises as `query_since`."""
        answers.require_range(wanted)
        return self.cut_since(since)

    def audit(self, *, since: AsOf = None) -> tuple[Audit, ...]:
        """All audits of the ledger; `since`: of what came after a cut alone, which has to have been audited itself.

        With it the rows that came since are audited, and those before that they continue, overlap or deny. Raises
        `UsageError` where `since` is later than this cut.
        """
        cut = None if since is None else self.cut_since(since)
        return audits_of(answers.audit_rows(self.snapshot, cut), cut)

    def sql(self, statements: str, /, **params: Value) -> Answer[Mapping[str, Any]]:
        """Carry out statements; the answer is that of the last one which has rows.

        The relation `params` has a row of the parameters. Raises `UsageError` for a statement that is refused, and
        where none has rows.
        """
        text("a statement", statements)
        with self.sql_session(params, declared_in(statements)) as session:
            found = [answer for answer in session.answers(statements) if answer is not None]
        if not found:
            raise UsageError("no statement has rows to answer with")
        return Answer(found[-1], mapping)

    def sql_session(
        self, params: Mapping[str, Value] | None = None, declared: Query | None = None
    ) -> SealedLedger:
        """A session of statements, to be closed; the parameters are of the types that a query declares, if one does."""
        values = dict(params or {})
        if declared is not None:
            values = self.filled_in(declared, values)
            declared.check(values)
        names = named_by_values(values) if declared is None else declared.params
        return sealed(self.snapshot, names, values)

    def attach(self, connection: "DuckDBPyConnection", *queries: str) -> None:
        """Make queries table functions of a connection of DuckDB, which take their parameters in the order of `params`.

        They answer from the rows of this cut, for as long as the connection: `at(None).attach` reads what came since.
        Raises `UsageError` without a query, and where the connection has something else of a name that is to be made.
        """
        if not queries:
            raise UsageError("attach needs the names of queries; nothing was made")
        elsewhere.attach(connection, self.snapshot, [catalog.query(name) for name in queries])

    def views(self, engine: str = "duckdb", queries: Sequence[str] = ()) -> str:
        """SQL that makes the tables, functions and views of this cut elsewhere: in `duckdb`, or in `spark`.

        With queries: what these read and nothing else, and a function of each, for the newest version whenever it is
        typed, or as of the cut that `as_of` named.
        """
        if engine not in VIEWS:
            raise UsageError(f"there are views for {', '.join(VIEWS)}, not for {engine!r}; nothing was made")
        if not queries:
            return VIEWS[engine](self.snapshot)
        wanted = [catalog.query(name) for name in dict.fromkeys(queries)]
        return PRINTED[engine](self.snapshot, wanted, None if self.as_of is None else self.snapshot.cut)

    def filled_in(self, wanted: Query, params: Mapping[str, Value]) -> dict[str, Value]:
        """What `query` runs with, for who runs it elsewhere: the parameters, and those that are found out.

        Raises `UsageError` for a flow that nobody knows, and for an instant whose facts have left the ledger, and
        `PreconditionError` for a flow that has never run.
        """
        found = dict(params)
        self._require_kept(found)
        if isinstance(flow := found.get("flow"), str):
            answers.require_flow(self.config, self.snapshot, text("flow", flow))
        if any(parameter.name == AT and parameter.is_optional for parameter in wanted.params):
            found.setdefault(AT, self.at_ms)
        from ledger.answers.flow_status import with_freshness  # see above

        return with_freshness(self.config, wanted, found, at_ms=self.at_ms)

    @property
    def facts_left(self) -> str | None:
        """In words what has left the ledger, and where it lies; None: nothing has."""
        if (left := self.snapshot.last_left) is None:
            return None
        return (
            f"facts from before {instant(left.until_ms)} have left the ledger: of these it has what answers as of "
            f"later need. All are in {left.archive.rpartition('/')[0]}"
        )

    # -----------------------------------------------------------------------------------------------

    def _require_kept(self, params: Mapping[str, Value]) -> None:
        asked = [value for name in _FROM if isinstance(value := params.get(name), int)]
        left = self.snapshot.last_left if asked else None
        if left is not None and min(asked) < left.until_ms:
            raise UsageError(f"{self.facts_left}; nothing was read. Ask from {left.until_ms} on")
