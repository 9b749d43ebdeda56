"""Configuration: one TOML file to frozen values, every problem reported at once.

Clusters carry client properties by their librdkafka names. A secret is a reference to an environment
variable or a file and is looked up only when a client is built, so a configuration can be printed,
logged and sent to executors. `conf/example.toml` explains every key.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from ledger.domain.flow_overlaps import FlowCopies, also_copied_by, overlap_problems
from ledger.domain.flow_rings import FlowEdge, ring_problems
from ledger.domain.table_upkeep import KEEP_SUPERSEDED_HOURS
from ledger.domain.tail_policy import TailPolicy
from ledger.domain.topic_acls import AclFollow
from ledger.domain.topic_settings import ConfigurationFollow, SettingsFollowing
from ledger.domain.topics import NamePatterns, NamingKind, TopicNaming, TopicSelection
from ledger.errors import ConfigurationError, UsageError
from ledger.filter_config import FilterConfig, Frozen, Pattern
from ledger.property_names import ADDRESS_PROPERTIES, OWN_PROPERTIES, SECRET_PROPERTIES
from ledger.rename_config import RenameConfig
from ledger.secret_config import PropertyValue, SecretReference

CONFIG_VARIABLE = "MIRROR_LEDGER_CONFIG"
NAME_PATTERN = r"[A-Za-z0-9._-]+"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


PlainName = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]


class Policy(StrEnum):
    """What a flow does about a partition after something happened to it; it is recorded either way."""

    STOP = "stop"  # stop the partition until an operator decides
    CONTINUE = "continue"  # go on


class StartAt(StrEnum):
    """Where a flow that never ran begins with the topics that exist then; a time is the third possibility."""

    EARLIEST = "earliest"
    LATEST = "latest"


def _valid_start(start: str) -> str:
    if start not in tuple(StartAt):
        try:
            at = datetime.fromisoformat(start)
        except ValueError:
            raise ValueError(f"is earliest, latest or a time with its offset, got {start!r}") from None
        if at.tzinfo is None:
            raise ValueError(f"a time is written with its offset (2026-01-31T12:00:00Z), got {start!r}")
    return start


class TargetMode(StrEnum):
    """Who else may write to the flow's target partitions."""

    EXCLUSIVE = "exclusive"  # nobody: a foreign record is a finding
    SHARED = "shared"  # other flows and applications


class LedgerConfig(Frozen):
    """Where the ledger's tables are: an absolute folder or a URI that Delta understands; and how they are kept."""

    path: Annotated[str, Field(min_length=1)]
    keep_superseded_hours: Annotated[int, Field(ge=KEEP_SUPERSEDED_HOURS, le=87_600)] = KEEP_SUPERSEDED_HOURS


class ClusterConfig(Frozen):
    """One Kafka cluster: its alias, where to find it, and client properties by their librdkafka names."""

    name: PlainName
    bootstrap_servers: Annotated[str, Field(min_length=1)]
    properties: Mapping[str, PropertyValue] = Field(default_factory=dict)


class FlowConfig(Frozen):
    """One direction of mirroring."""

    name: PlainName
    enabled: bool = True
    source: str
    target: str
    topics: Annotated[tuple[Pattern, ...], Field(min_length=1, strict=False)]
    exclude: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    groups: Annotated[tuple[Pattern, ...], Field(strict=False)] = (".*",)
    groups_exclude: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    topic_naming: Annotated[NamingKind, Field(strict=False)] = NamingKind.PREFIX
    prefix: PlainName | None = None
    rename: Annotated[tuple[RenameConfig, ...], Field(strict=False)] = ()
    start: Annotated[str, AfterValidator(_valid_start)] = StartAt.EARLIEST
    on_loss: Annotated[Policy, Field(strict=False)] = Policy.STOP
    on_source_truncated: Annotated[Policy, Field(strict=False)] = Policy.STOP
    on_source_recreated: Annotated[Policy, Field(strict=False)] = Policy.STOP
    on_target_truncated: Annotated[Policy, Field(strict=False)] = Policy.CONTINUE
    on_target_recreated: Annotated[Policy, Field(strict=False)] = Policy.STOP
    on_tail_lost: Annotated[TailPolicy | None, Field(strict=False)] = None
    target_mode: Annotated[TargetMode, Field(strict=False)] = TargetMode.EXCLUSIVE
    relay: bool = False
    filter: FilterConfig = FilterConfig()
    round_seconds: Annotated[float, Field(gt=0.2, le=3600)] = 5.0
    tasks: Annotated[int, Field(ge=1, le=64)] = 1
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 5.0
    high_watermark_seconds: Annotated[float, Field(gt=0)] = 5.0
    full_sweep_seconds: Annotated[float, Field(gt=0)] = 300.0
    topic_refresh_seconds: Annotated[float, Field(gt=0)] = 10.0
    heartbeat_seconds: Annotated[float, Field(ge=1)] = 60.0
    open_transaction_seconds: Annotated[float, Field(gt=0)] = (
        900.0  # brokers end transactions after 15 minutes by default
    )
    replication_factor: Annotated[int, Field(ge=1, le=32767)] | None = None
    configuration_follow: Annotated[ConfigurationFollow | None, Field(strict=False)] = None
    configuration_include: Annotated[tuple[Pattern, ...], Field(strict=False)] = (".*",)
    configuration_exclude: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    delete_topics: bool = False
    acls: Annotated[AclFollow, Field(strict=False)] = AclFollow.NONE

    @property
    def settings_following(self) -> SettingsFollowing:
        """By default changes follow, but not where several flows would each have their way."""
        is_own = self.target_mode is TargetMode.EXCLUSIVE
        by_default = ConfigurationFollow.INCREMENTAL if is_own else ConfigurationFollow.CREATE
        patterns = NamePatterns(self.configuration_include, self.configuration_exclude)
        return SettingsFollowing(self.configuration_follow or by_default, patterns)

    @property
    def naming(self) -> TopicNaming:
        if self.topic_naming is NamingKind.RENAME:
            return TopicNaming(NamingKind.RENAME, rules=tuple(rename.rule for rename in self.rename))
        if self.topic_naming is NamingKind.IDENTITY:
            return TopicNaming(NamingKind.IDENTITY)
        return TopicNaming(NamingKind.PREFIX, self.prefix or self.source)

    @property
    def start_at_ms(self) -> int | None:
        """The time to start at; None when `start` is not a time."""
        if self.start in tuple(StartAt):
            return None
        return int(datetime.fromisoformat(self.start).timestamp() * 1000)

    @property
    def group_patterns(self) -> NamePatterns:
        return NamePatterns(self.groups, self.groups_exclude)


Named = TypeVar("Named", ClusterConfig, FlowConfig)


class MirrorConfig(Frozen):
    """A whole configuration file."""

    file: str
    ledger: LedgerConfig
    clusters: Mapping[str, ClusterConfig]
    flows: Mapping[str, FlowConfig]

    def cluster(self, name: str) -> ClusterConfig:
        return _known("cluster", name, self.clusters, self.file)

    def flow(self, name: str) -> FlowConfig:
        return _known("flow", name, self.flows, self.file)

    def enabled_flow(self, name: str) -> FlowConfig:
        """A flow that may be run; raises `UsageError` when the file says that it may not."""
        flow = self.flow(name)
        if not flow.enabled:
            raise UsageError(
                f"flow {name} is disabled: {self.file} has enabled = false in [flows.{name}]; nothing was claimed or "
                "copied. Remove the line where the flow is to run"
            )
        return flow

    @property
    def enabled_flows(self) -> tuple[FlowConfig, ...]:
        return tuple(flow for flow in self.flows.values() if flow.enabled)

    def topic_selection(self, flow_name: str) -> TopicSelection:
        """The topics of a flow, without copies that came, or would come, from where the flow goes."""
        flow = self.flow(flow_name)
        return TopicSelection(flow.topics, flow.exclude, self._mirrored_prefixes(flow), flow.naming)

    def returned_elsewhere(self, flow_name: str) -> Callable[[str], frozenset[str]]:
        """By target topic of a flow: the sources of flows with an earlier name that write to it as well."""
        flow = self.flow(flow_name)
        earlier = [
            (other, self.topic_selection(other.name))
            for other in self.enabled_flows
            if other.target == flow.target and other.name < flow.name and not other.relay
        ]
        return lambda target_topic: frozenset(
            other.source
            for other, selection in earlier
            if (origin := other.naming.source_name(target_topic)) is not None and selection.selects(origin)
        )

    def also_copied_by(self, flow_name: str) -> Callable[[str], frozenset[str]]:
        """By source topic of a flow: other flows of the same pair that copy it to the same target topic."""
        copies = [
            self._selected_copies(other.name)
            for other in self.flows.values()
            if other.enabled or other.name == flow_name
        ]
        return lambda topic: also_copied_by(flow_name, copies, topic)

    def _selected_copies(self, flow_name: str) -> FlowCopies:
        flow = self.flow(flow_name)
        return FlowCopies(flow.name, flow.source, flow.target, self.topic_selection(flow_name))

    def readers_of(self, cluster: str, topics: Sequence[str]) -> list[FlowConfig]:
        """Flows that read one of these topics of a cluster and leave out what mirrors wrote there."""
        readers = [flow for flow in self.flows.values() if flow.source == cluster and not flow.relay]
        return [flow for flow in readers if any(map(self.topic_selection(flow.name).selects, topics))]

    def _mirrored_prefixes(self, flow: FlowConfig) -> tuple[str, ...]:
        if flow.topic_naming is not NamingKind.PREFIX:
            return ()
        reverse = {
            other.naming.prefix
            for other in self.flows.values()
            if (other.source, other.target) == (flow.target, flow.source) and other.naming.prefix
        }
        return tuple(sorted(reverse | {flow.target}))


def _known(kind: str, name: str, known: Mapping[str, Named], file: str) -> Named:
    if name not in known:
        raise UsageError(f"{file} has no {kind} {name!r}; it has {', '.join(sorted(known)) or 'none'}")
    return known[name]


def find_config(option: str | None, environ: Mapping[str, str]) -> Path:
    """The configuration file that was asked for: the option first, then the environment."""
    chosen = option or environ.get(CONFIG_VARIABLE)
    if not chosen:
        raise UsageError(f"no configuration file: pass --config FILE or set {CONFIG_VARIABLE}")
    return Path(chosen)


def load_config(path: Path) -> MirrorConfig:
    """Read and check a file; raises one `ConfigurationError` with every problem."""
    file = str(path)
    raw = _parse(path)
    problems = list(_problems(raw))
    if problems:
        raise ConfigurationError(file, problems)
    return MirrorConfig.model_validate({"file": file, **_normalised(raw, path.absolute().parent)})


# Reading ---------------------------------------------------------------------------------------

Table = dict[str, Any]


def _parse(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), [f"is not UTF-8 text: byte {error.start}"]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(str(path), [f"is not TOML: {error}"]) from error


def _normalised(raw: Table, folder: Path) -> Table:
    """The shape that the models take; called on what has no problems."""
    clusters = {name: _cluster_values(name, table, folder) for name, table in raw["clusters"].items()}
    flows = {name: {"name": name, **table} for name, table in raw["flows"].items()}
    return {
        "ledger": {**raw["ledger"], "path": _ledger_path(raw["ledger"]["path"], folder)},
        "clusters": clusters,
        "flows": flows,
    }


def _ledger_path(path: str, folder: Path) -> str:
    """The same place for every command, from wherever it is typed."""
    return path if _URI.match(path) else os.path.abspath(folder / path)


def _cluster_values(name: str, table: Table, folder: Path) -> Table:
    properties = {
        key: _property_value(value, folder) for key, value in _flattened(table) if key != "bootstrap_servers"
    }
    return {"name": name, "bootstrap_servers": table["bootstrap_servers"], "properties": properties}


def _property_value(value: object, folder: Path) -> PropertyValue:
    if isinstance(value, dict):
        file = value.get("file")
        located = {**value, "file": os.path.join(folder, file)} if file is not None else value
        return SecretReference.model_validate(located)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flattened(table: Table, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested tables as dotted names; a table of `env` or `file` is a value."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and not _looks_like_reference(value):
            yield from _flattened(value, f"{name}.")
        else:
            yield name, value


def _looks_like_reference(value: Table) -> bool:
    return bool(value) and value.keys() <= {"env", "file"}


# Problems --------------------------------------------------------------------------------------


def _problems(raw: Table) -> Iterator[str]:
    for key in raw.keys() - {"ledger", "clusters", "flows"}:
        yield f"{key}: unknown key"
    for section in ("ledger", "clusters", "flows"):
        if not isinstance(raw.get(section), dict) or not raw[section]:
            yield f"{section}: a table [{section}{'' if section == 'ledger' else '.NAME'}] is needed"
    yield from _model_problems(LedgerConfig, _table(raw, "ledger"), "ledger", skip=not raw.get("ledger"))
    clusters, flows = _table(raw, "clusters"), _table(raw, "flows")
    for name, table in clusters.items():
        yield from _cluster_problems(name, table)
    for name, table in flows.items():
        yield from _flow_problems(name, table, clusters)
    enabled = {
        name: table for name, table in flows.items() if _table(flows, name).get("enabled") is not False
    }
    yield from ring_problems(
        [edge for name, table in enabled.items() if (edge := _edge(name, table)) is not None]
    )
    yield from overlap_problems(
        [copies for name, table in enabled.items() if (copies := _copies(name, table)) is not None]
    )


def _table(raw: Table, key: str) -> Table:
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def _model_problems(
    model: type[BaseModel], values: Table, where: str, *, skip: bool = False
) -> Iterator[str]:
    if skip:
        return
    try:
        model.model_validate(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False, include_context=False):
            yield f"{_key_path(where, detail['loc'])}: {_sentence(detail['type'], detail['msg'])}"


def _key_path(where: str, location: tuple[int | str, ...]) -> str:
    """`flows.east-to-west.topics[0]`; the name of a table is reported as the table."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part != "name"]
    return where + "".join(parts)


def _sentence(kind: str, message: str) -> str:
    plain = {"missing": "is missing", "extra_forbidden": "unknown key"}
    return plain.get(kind, message.removeprefix("Value error, "))


def _name_problems(name: str, where: str) -> Iterator[str]:
    if not re.fullmatch(NAME_PATTERN, name):
        yield f"{where}: a name has letters, digits, dot, underscore and hyphen only, got {name!r}"


def _cluster_problems(name: str, table: object) -> Iterator[str]:
    where = f"clusters.{name}"
    yield from _name_problems(name, where)
    if not isinstance(table, dict):
        yield f"{where}: is a table, got {type(table).__name__}"
        return
    yield from _address_problems(table, where)
    seen: set[str] = set()
    for key, value in _flattened({k: v for k, v in table.items() if k != "bootstrap_servers"}):
        if key in seen:
            yield f"{where}.{key}: is given twice, quoted and as a nested table"
        seen.add(key)
        yield from _property_problems(f"{where}.{key}", key, value)


def _address_problems(table: Table, where: str) -> Iterator[str]:
    servers = table.get("bootstrap_servers")
    if servers is None:
        yield f"{where}.bootstrap_servers: is missing"
    elif not isinstance(servers, str):
        yield f"{where}.bootstrap_servers: is text host:port[,host:port...], got {type(servers).__name__}"
    else:
        for address in servers.split(","):
            if not re.fullmatch(r"\s*[^\s:]+:\d{1,5}\s*|\s*\[[0-9a-fA-F:]+\]:\d{1,5}\s*", address):
                yield f"{where}.bootstrap_servers: is host:port[,host:port...], got {address.strip()!r}"


def _property_problems(where: str, key: str, value: object) -> Iterator[str]:
    if key in OWN_PROPERTIES:
        yield f"{where}: is set by the mirror itself and cannot be configured"
    elif key in ADDRESS_PROPERTIES:
        yield f"{where}: is written bootstrap_servers"
    elif isinstance(value, dict):
        yield from _model_problems(SecretReference, value, where)
    elif key in SECRET_PROPERTIES:
        yield f'{where}: a secret is written as a reference, {{ env = "VARIABLE" }} or {{ file = "PATH" }}'
    elif not isinstance(value, str | bool | int | float):
        yield f"{where}: a client property is text, a number or true/false, got {type(value).__name__}"


def _flow_problems(name: str, table: object, clusters: Table) -> Iterator[str]:
    where = f"flows.{name}"
    yield from _name_problems(name, where)
    if not isinstance(table, dict):
        yield f"{where}: is a table, got {type(table).__name__}"
        return
    if "name" in table:
        yield f"{where}.name: unknown key"
    yield from _model_problems(FlowConfig, {**table, "name": "checked-above"}, where)
    for end in ("source", "target"):
        cluster = table.get(end)
        if isinstance(cluster, str) and cluster not in clusters:
            known = ", ".join(sorted(clusters)) or "none"
            yield f"{where}.{end}: there is no cluster {cluster!r}; clusters are {known}"
    yield from _naming_problems(table, where)
    yield from _deletion_problems(table, where)


def _naming_problems(table: Table, where: str) -> Iterator[str]:
    naming = table.get("topic_naming", NamingKind.PREFIX)
    if naming != NamingKind.PREFIX and "prefix" in table:
        yield f'{where}.prefix: has no meaning with topic_naming = "{naming}"'
    if naming == NamingKind.RENAME and not table.get("rename"):
        yield f'{where}.rename: topic_naming = "rename" needs at least one rule'
    if naming != NamingKind.RENAME and "rename" in table:
        yield f'{where}.rename: has a meaning with topic_naming = "rename" only'
    is_one_cluster = table.get("source") == table.get("target") is not None
    if naming == NamingKind.IDENTITY and is_one_cluster:
        yield f"{where}.topic_naming: identity on one cluster would copy each topic onto itself"


def _deletion_problems(table: Table, where: str) -> Iterator[str]:
    if table.get("delete_topics") is True and table.get("target_mode") == TargetMode.SHARED:
        yield f"{where}.delete_topics: a shared target topic holds what others wrote and is never deleted"


def _copies(name: str, table: object) -> FlowCopies | None:
    """None for a flow whose own problems are told already."""
    flow = _valid_flow(name, table)
    if flow is None or (flow.topic_naming is NamingKind.RENAME and not flow.rename):
        return None
    selection = TopicSelection(flow.topics, flow.exclude, naming=flow.naming)
    return FlowCopies(flow.name, flow.source, flow.target, selection)


def _valid_flow(name: str, table: object) -> FlowConfig | None:
    """None for a flow whose own problems are told already."""
    try:
        return FlowConfig.model_validate({**table, "name": name} if isinstance(table, dict) else table)
    except ValidationError:
        return None


def _edge(name: str, table: object) -> FlowEdge | None:
    """None for a flow whose own problems are told already."""
    flow = _valid_flow("checked-above", table)
    if flow is None:
        return None
    return FlowEdge(
        name,
        flow.source,
        flow.target,
        flow.topics,
        keeps_names=flow.topic_naming is NamingKind.IDENTITY,
        shares_target=flow.target_mode is TargetMode.SHARED,
        relays=flow.relay,
    )
