"""A whole configuration: the ledger, the clusters and the flows, and what these are to each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from ledger.config.values import (
    AppConfig,
    ClusterConfig,
    FlowConfig,
    Frozen,
    Listen,
    Objective,
    Objectives,
    PropertyValue,
    SecretReference,
    secrets_in,
)
from ledger.errors import UsageError
from ledger.facts.tables import KEEP_SUPERSEDED_HOURS
from ledger.topics.naming import NamingKind, TopicSelection


class LedgerConfig(Frozen):
    """Where the ledger's tables are: an absolute folder or a URI that Delta understands; and how they are kept.

    `keep_facts_days`: facts that are older leave into `archive`, a folder or a URI as well; None: none ever does.
    """

    path: Annotated[str, Field(min_length=1)]
    keep_superseded_hours: Annotated[int, Field(ge=KEEP_SUPERSEDED_HOURS, le=87_600)] = KEEP_SUPERSEDED_HOURS
    keep_facts_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    archive: Annotated[str, Field(min_length=1)] | None = None
    store: Mapping[str, PropertyValue] = Field(default_factory=dict)

    def store_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables by which clients of the ledger's store find it, and log in there, secrets resolved.

        Raises `UsageError` where a secret cannot be read.
        """
        return {
            name.upper(): value if isinstance(value, str) else value.resolve(environ)
            for name, value in self.store.items()
        }


_Count = Annotated[int, Field(ge=0)]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ObjectivesConfig(Frozen):
    """The most that is allowed, of each flow, pair or group; None: anything."""

    max_lag_records: _Count | None = None
    max_lag_seconds: _Seconds | None = None
    max_loss_records: _Count | None = None
    max_loss_seconds: _Seconds | None = None
    max_downtime_seconds: _Seconds | None = None
    max_repeats_per_group: _Count | None = None


class LogsConfig(Frozen):
    """How processes that run for long write on stderr, unless options or the environment say it."""

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"


_Address = Annotated[str, Field(min_length=1)]
_Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]+$")]


class MetricsConfig(Frozen):
    """Where a driver lets its metrics be read, `HOST:PORT`; None: nowhere. `token`: what a reader has to show."""

    listen: _Address | None = None
    token: SecretReference | None = None

    @field_validator("listen")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        return value if value is None else str(Listen.parse(value))


class ServeConfig(Frozen):
    """Where `serve` listens, what a reader has to show, and by which names it may be asked for.

    `hosts`: beside the address that it listens at and names of this machine. `refresh_seconds`: how often the ledger
    is read at most.
    """

    listen: _Address = "127.0.0.1:8480"
    token: SecretReference | None = None
    hosts: Annotated[tuple[_Host, ...], Field(strict=False)] = ()
    refresh_seconds: Annotated[float, Field(ge=1, le=3600, allow_inf_nan=False)] = 5.0

    @field_validator("listen")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        return str(Listen.parse(value))


class EvidenceConfig(Frozen):
    """Where the heads of the ledger's links are kept outside of it, a folder or a URI; None: nowhere else.

    `key`: the private key by which bundles are signed, as PEM; None: they are not.
    """

    anchor: Annotated[str, Field(min_length=1)] | None = None
    key: SecretReference | None = None


class Person(Frozen):
    """Who may approve: a public key as PEM. `operator`: the account by which they use the program; None: their name."""

    key: Annotated[str, Field(pattern=r"^\s*-----BEGIN PUBLIC KEY-----")]
    operator: Annotated[str, Field(min_length=1)] | None = None

    @field_validator("key")
    @classmethod
    def _is_a_key(cls, value: str) -> str:
        _fingerprint(value)
        return value


def _fingerprint(key: str) -> str:
    from ledger.signatures import fingerprint  # its library is loaded where people are named alone

    try:
        return fingerprint(key)
    except UsageError as error:
        raise ValueError(str(error)) from error


_PersonName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._@-]+$")]


class ApprovalsConfig(Frozen):
    """How many people have to stand behind a plan that is carried out, and who they are."""

    plan: Annotated[int, Field(ge=1, le=10)] = 1
    people: Mapping[_PersonName, Person] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _are_enough(self) -> Self:
        if self.plan > max(1, len(self.people)):
            raise ValueError(f"asks for {self.plan} people to a plan, and people names {len(self.people)}")
        if len({_fingerprint(one.key) for one in self.people.values()}) < len(self.people):
            raise ValueError("two people have one key")
        if len({self.account(name) for name in self.people}) < len(self.people):
            raise ValueError(
                "two people plan by one account: give them an operator that no account has, then all sign"
            )
        return self

    def account(self, person: str) -> str:
        """By which the person plans."""
        return self.people[person].operator or person


Named = TypeVar("Named", ClusterConfig, FlowConfig)


class MirrorConfig(Frozen):
    """A whole configuration file."""

    file: str
    ledger: LedgerConfig
    clusters: Mapping[str, ClusterConfig]
    flows: Mapping[str, FlowConfig]
    objectives: ObjectivesConfig = ObjectivesConfig()
    apps: Mapping[str, AppConfig] = Field(default_factory=dict)
    logs: LogsConfig = LogsConfig()
    metrics: MetricsConfig = MetricsConfig()
    serve: ServeConfig = ServeConfig()
    evidence: EvidenceConfig = EvidenceConfig()
    approvals: ApprovalsConfig = ApprovalsConfig()

    @property
    def outputs_of_groups(self) -> Mapping[str, tuple[str, ...]]:
        """By group of a declared application the topics that it writes to."""
        return {group: app.outputs for app in self.apps.values() for group in app.groups}

    @property
    def allowed(self) -> Objectives:
        """The objectives that are given."""
        given = self.objectives.model_dump(exclude_none=True)
        return {Objective(key): value for key, value in given.items()}

    def secrets(self, environ: Mapping[str, str]) -> frozenset[str]:
        """The values of all secrets that the file refers to, as far as they are found here."""
        return frozenset(secrets_in(self, environ))

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
        return replace(flow.selection, mirrored_prefixes=self._mirrored_prefixes(flow))

    def copies(self, flow: FlowConfig, target_topic: str) -> bool:
        """Whether a flow copies to this topic of its target."""
        source_topic = flow.naming.source_name(target_topic)
        return source_topic is not None and self.topic_selection(flow.name).selects(source_topic)

    def restored_by_other_flow(self, flow_name: str) -> Callable[[str], frozenset[str]]:
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
        flow, own = self.flow(flow_name), self.topic_selection(flow_name)
        beside = [
            (other.name, self.topic_selection(other.name))
            for other in self.enabled_flows
            if flow.is_beside(other)
        ]

        def copied_by(topic: str) -> frozenset[str]:
            name = own.target_name(topic)
            return frozenset(
                other for other, selection in beside if name and selection.target_name(topic) == name
            )

        return copied_by

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
