"""Values of a configuration: clusters, flows, filters, names, secrets, objectives."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from string import ascii_letters, digits
from typing import Annotated, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from ledger.errors import InvalidValueError, Trouble, UsageError
from ledger.facts.acls import AclFollow
from ledger.topics.following import BROKERS_DEFAULT, ConfigurationFollow, SettingsFollowing
from ledger.topics.naming import (
    TOPIC_PLACE,
    NamePatterns,
    NamingKind,
    RecordFilter,
    RenameRule,
    TailPolicy,
    TopicNaming,
    TopicSelection,
)
from ledger.words import counted, duration

# Values -------------------------------------------------------------------------------------------
# What all values of a configuration share.


class Frozen(BaseModel):
    """Values that cannot change; an unknown key or another type is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _valid_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
    return pattern


Pattern = Annotated[str, AfterValidator(_valid_pattern)]

NAME_PATTERN = r"[A-Za-z0-9._-]+"

PlainName = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]


# Record filter ------------------------------------------------------------------------------------
# The part of a flow's configuration that leaves records out.


class FilterConfig(Frozen):
    """Records that a flow leaves out; times are TOML's own, with an offset."""

    include_keys: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    exclude_keys: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    exclude_headers: Mapping[str, Pattern] = Field(default_factory=dict)
    from_time: AwareDatetime | None = None
    until_time: AwareDatetime | None = None

    @model_validator(mode="after")
    def _some_time_between(self) -> Self:
        if self.from_time is not None and self.until_time is not None and self.from_time >= self.until_time:
            raise ValueError(f"from_time {self.from_time} is not before until_time {self.until_time}")
        return self

    @property
    def record_filter(self) -> RecordFilter:
        return RecordFilter(
            include_keys=self.include_keys,
            exclude_keys=self.exclude_keys,
            exclude_headers=tuple(sorted(self.exclude_headers.items())),
            from_ms=_milliseconds(self.from_time),
            until_ms=_milliseconds(self.until_time),
        )


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


# Renaming -----------------------------------------------------------------------------------------
# Rules of renaming as a configuration has them.


class RenameConfig(Frozen):
    """A rule of `topic_naming = "rename"`: source names that match as a whole are called `to`."""

    match: Pattern
    to: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _renames(self) -> Self:
        try:
            _ = self.rule
        except InvalidValueError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def rule(self) -> RenameRule:
        return RenameRule(self.match, self.to)


# Flow ---------------------------------------------------------------------------------------------
# One flow as a configuration has it: what is copied, how, and what is done when something happens to it.


class Policy(StrEnum):
    """What a flow does about a partition after something happened to it; it is recorded either way."""

    STOP = "stop"  # stop the partition until an operator decides
    CONTINUE = "continue"


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


def _valid_replication_factor(replicas: int) -> int:
    if replicas != BROKERS_DEFAULT and not 1 <= replicas <= _MOST_REPLICAS:
        raise ValueError(
            f"is 1 to {_MOST_REPLICAS} replicas, or {BROKERS_DEFAULT} for the default of the target's brokers"
        )
    return replicas


_MOST_REPLICAS = 32767


def _valid_dead_letters(name: str) -> str:
    """Each topic has one of its own: with its partitions, and so that each batch there is of one source partition."""
    if name.count(TOPIC_PLACE) != 1 or name == TOPIC_PLACE:
        raise ValueError(
            f"is a topic name with {TOPIC_PLACE} where that of the target topic is to be, as in "
            f"dead-letters.{TOPIC_PLACE}; got {name!r}"
        )
    if not set(name.replace(TOPIC_PLACE, "")) <= set(_TOPIC_CHARACTERS):
        raise ValueError(f"has letters, digits, '.', '_' and '-' beside {TOPIC_PLACE}, got {name!r}")
    return name


_TOPIC_CHARACTERS = f"{ascii_letters}{digits}._-"


class TargetMode(StrEnum):
    """Who else may write to the flow's target partitions."""

    EXCLUSIVE = "exclusive"  # nobody: a foreign record is a finding
    SHARED = "shared"  # other flows and applications


class FlowConfig(Frozen):
    """One direction of mirroring."""

    name: PlainName
    enabled: bool = True
    source: str
    target: str
    topics: Annotated[tuple[Pattern, ...], Field(min_length=1, strict=False)]
    exclude: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    topics_first: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    let_in: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    groups: Annotated[tuple[Pattern, ...], Field(strict=False)] = (".*",)
    groups_exclude: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    sync_groups: bool = False
    sync_groups_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 60.0
    emit_checkpoints: bool = False
    emit_heartbeats: bool = False
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
    dead_letters: Annotated[str, AfterValidator(_valid_dead_letters)] | None = None
    target_mode: Annotated[TargetMode, Field(strict=False)] = TargetMode.EXCLUSIVE
    opposite: PlainName | None = None
    relay: bool = False
    filter: FilterConfig = FilterConfig()
    round_seconds: Annotated[float, Field(gt=0.2, le=3600)] = 5.0
    tasks: Annotated[int, Field(ge=1, le=64)] = 1
    byte_rate: Annotated[int, Field(ge=1024)] | None = None
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 5.0
    high_watermark_seconds: Annotated[float, Field(gt=0)] = 5.0
    full_sweep_seconds: Annotated[float, Field(gt=0)] = 300.0
    topic_refresh_seconds: Annotated[float, Field(gt=0)] = 10.0
    heartbeat_seconds: Annotated[float, Field(ge=1)] = 60.0
    open_transaction_seconds: Annotated[float, Field(gt=0)] = (
        900.0  # brokers end transactions after 15 minutes by default
    )
    replication_factor: Annotated[int, AfterValidator(_valid_replication_factor)] | None = None
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
    def selection(self) -> TopicSelection:
        """The topics that its patterns select, copies from its target among them."""
        return TopicSelection(self.topics, self.exclude, naming=self.naming, let_in=self.let_in)

    def is_beside(self, other: "FlowConfig") -> bool:
        """Whether another flow goes the same way."""
        return other.name != self.name and (other.source, other.target) == (self.source, self.target)

    @property
    def start_at_ms(self) -> int | None:
        """The time to start at; None when `start` is not a time."""
        if self.start in tuple(StartAt):
            return None
        return int(datetime.fromisoformat(self.start).timestamp() * 1000)

    @property
    def group_patterns(self) -> NamePatterns:
        return NamePatterns(self.groups, self.groups_exclude)


# Objectives ---------------------------------------------------------------------------------------
# What a mirror is to keep to, and what of it is not met: the allowed lag, loss, time and repeats.
#
# A figure that nobody knows is not met: of an objective that is held to be met somebody has to know that it
# is.


class Objective(StrEnum):
    """The keys of `[objectives]`."""

    MAX_LAG_RECORDS = "max_lag_records"
    MAX_LAG_SECONDS = "max_lag_seconds"
    MAX_LOSS_RECORDS = "max_loss_records"
    MAX_LOSS_SECONDS = "max_loss_seconds"
    MAX_DOWNTIME_SECONDS = "max_downtime_seconds"
    MAX_REPEATS_PER_GROUP = "max_repeats_per_group"


_WHAT: Mapping[Objective, tuple[str, str | None]] = {
    Objective.MAX_LAG_RECORDS: ("lag", "record"),
    Objective.MAX_LAG_SECONDS: ("lag", None),
    Objective.MAX_LOSS_RECORDS: ("what a failover would lose", "record"),
    Objective.MAX_LOSS_SECONDS: ("since when a failover would lose records", None),
    Objective.MAX_DOWNTIME_SECONDS: ("downtime", None),
    Objective.MAX_REPEATS_PER_GROUP: ("what is repeated", "record"),
}
"""In words, and what is counted; None: a time."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What there is, or would be, of one objective; `value` None: nobody knows.

    `of`: the flow, pair or group that it is of. `is_at_least`: it may be more, so it tells only that it is too much.
    """

    objective: Objective
    value: float | None
    of: str
    is_at_least: bool = False


Objectives = Mapping[Objective, float]
"""By objective the most that is allowed; one that is not there allows anything."""


def objections(objectives: Objectives, figures: Iterable[Figure]) -> list[tuple[str, str]]:
    """A code and words for each figure that does not keep to its objective, in the order of the figures.

    The code is `OBJECTIVE_exceeded` or `OBJECTIVE_unknown`. What no figure is given of is not judged.
    """
    found = []
    for figure in figures:
        allowed = objectives.get(figure.objective)
        if allowed is None:
            continue
        if figure.value is not None and figure.value > allowed:
            found.append((f"{figure.objective}_exceeded", _exceeded(figure, figure.value, allowed)))
        elif figure.value is None or figure.is_at_least:
            found.append((f"{figure.objective}_unknown", _unknown(figure, allowed)))
    return found


def _exceeded(figure: Figure, value: float, allowed: float) -> str:
    what, _ = _WHAT[figure.objective]
    bound = "at least " if figure.is_at_least else ""
    return f"{figure.of}: {what} is {bound}{_amount(figure, value)}, {_allows(figure, allowed)}"


def _unknown(figure: Figure, allowed: float) -> str:
    what, _ = _WHAT[figure.objective]
    known = "" if figure.value is None else f" beyond {_amount(figure, figure.value)}"
    return f"{figure.of}: {what} is unknown{known}, {_allows(figure, allowed)}: it counts as not met"


def _allows(figure: Figure, allowed: float) -> str:
    return f"{figure.objective} allows {_amount(figure, allowed)}"


def _amount(figure: Figure, value: float) -> str:
    _, unit = _WHAT[figure.objective]
    return duration(value) if unit is None else counted(int(value), unit)


# Secrets ------------------------------------------------------------------------------------------
# The part of a cluster's configuration that says where a secret is found.


class SecretReference(Frozen):
    """Where a secret is found when a client is built: an environment variable or a file."""

    env: str | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("a secret reference has either env or file")
        return self

    def resolve(self, environ: Mapping[str, str]) -> str:
        """The secret itself; the message of a failure names the place, never the value."""
        if self.env is not None:
            if not environ.get(self.env):
                raise _no_secret(f"{self.env}, which is not set")
            return environ[self.env]
        try:
            secret = Path(str(self.file)).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise _no_secret(f"{self.file}: {reason}") from None
        if not secret:
            raise _no_secret(f"{self.file}, which is empty")
        return secret


def _no_secret(why: str) -> UsageError:
    return UsageError(f"a secret is read from {why}; no client was built", trouble=Trouble.SECRET)


def secrets_in(value: object, environ: Mapping[str, str]) -> Iterator[str]:
    """The values of all secrets in a part of the configuration, as far as they are found here."""
    if isinstance(value, SecretReference):
        with suppress(UsageError):
            yield value.resolve(environ)
        return
    parts = dict(value) if isinstance(value, BaseModel) else value
    for part in parts.values() if isinstance(parts, Mapping) else ():
        yield from secrets_in(part, environ)


PropertyValue = str | SecretReference


@dataclass(frozen=True, slots=True)
class Listen:
    """An address of this machine at which others may ask: `127.0.0.1:8480`, `[::1]:8480`, `0.0.0.0:8480`."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `ValueError` for what is no host and port."""
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (colon and host and port.isascii() and port.isdecimal() and int(port) < 65_536):
            raise ValueError(f"is HOST:PORT, got {text!r}")
        return cls(host, int(port))

    @property
    def is_of_this_machine_alone(self) -> bool:
        """Whether nobody reaches it from elsewhere."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


STORE_SECRETS = frozenset({"aws_secret_access_key", "aws_session_token"})
STORE_OPTIONS = STORE_SECRETS | {
    "aws_access_key_id",
    "aws_allow_http",
    "aws_ca_bundle",
    "aws_endpoint_url",
    "aws_profile",
    "aws_region",
}
"""Keys of `[ledger.store]`: each is a variable of the environment, in lower case, as clients of S3 know them."""


# Property names -----------------------------------------------------------------------------------
# Names of client properties, as librdkafka spells them, that mean something to the configuration.


SECRET_PROPERTIES = frozenset(
    {
        "sasl.oauthbearer.client.secret",
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
    }
)
"""Client properties that are never written down in a configuration file."""

OWN_PROPERTIES = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "client.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "request.required.acks",
        "transactional.id",
    }
)
"""Client properties that decide what is promised; the mirror sets them itself."""

ADDRESS_PROPERTIES = frozenset({"bootstrap.servers", "metadata.broker.list"})

SECURITY_PROPERTIES = SECRET_PROPERTIES | {
    "enable.ssl.certificate.verification",
    "https.ca.location",
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.verification.strict",
}
"""Client properties that say how the mirror connects and who it is; all that it can use.

The names are librdkafka's, and Java's where librdkafka has none; `ssl.verification.strict` is our own.
"""

_LOGINS = (
    "the logins that it can make are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI, AWS_MSK_IAM"
)

UNUSABLE_SECURITY = {
    "ssl.keystore.": "write ssl.keystore.location, a file in PEM, PKCS#12 or JKS format",
    "ssl.truststore.": "write ssl.truststore.location, a file in PEM, PKCS#12 or JKS format",
    "ssl.ca.": "write ssl.ca.location, a file in PEM format",
    "ssl.certificate.": "write ssl.certificate.location, a file in PEM format",
    "ssl.key.": "write ssl.key.location, a file in PEM format",
    "sasl.jaas.": "write what it says as properties: sasl.username, sasl.password, sasl.kerberos.keytab and the like",
    "sasl.oauthbearer.": "tokens come by sasl.oauthbearer.token.endpoint.url, .client.id, .client.secret and .scope",
    "sasl.kerberos.": "tickets come by sasl.kerberos.keytab and sasl.kerberos.principal",
    "sasl.": _LOGINS,
    "enable.sasl.": _LOGINS,
    "enable.ssl.": "write enable.ssl.certificate.verification",
    "https.": "write https.ca.location, a file in PEM format",
    "ssl.": "it is as the TLS library of this machine is set up",
}
"""By how it begins, the first that fits: what to write instead of a security property that the mirror cannot use.

Leaving it out would connect in another way than configured.
"""

CLIENT_RACK = "client.rack"
"""Of a source cluster: the rack that the mirror is in, whose replicas it reads from."""

TUNING_PROPERTIES = frozenset(
    {
        "allow.auto.create.topics",
        "api.version.fallback.ms",
        "api.version.request",
        "api.version.request.timeout.ms",
        "auto.commit.interval.ms",
        "batch.num.messages",
        "batch.size",
        "broker.address.family",
        "broker.address.ttl",
        "broker.version.fallback",
        "check.crcs",
        "client.dns.lookup",
        "compression.codec",
        "compression.level",
        "compression.type",
        "connections.max.idle.ms",
        "debug",
        "delivery.timeout.ms",
        "enable.metrics.push",
        "enable.sparse.connections",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.wait.max.ms",
        "heartbeat.interval.ms",
        "linger.ms",
        "log.connection.close",
        "log_level",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "message.max.bytes",
        "message.send.max.retries",
        "message.timeout.ms",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "partition.assignment.strategy",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "receive.message.max.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "session.timeout.ms",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "socket.timeout.ms",
        "statistics.interval.ms",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.interval.ms",
        "topic.metadata.refresh.sparse",
        "transaction.timeout.ms",
    }
)
"""Client properties that have no effect: they tune librdkafka, and the mirror's connections are its own."""


# Cluster ------------------------------------------------------------------------------------------
# One cluster as a configuration has it.


PRINCIPAL_PATTERN = r"[^\s:]+:\S(.*\S)?"
"""As Kafka writes one: a type, a colon, a name (`User:mirror`)."""


class ClusterConfig(Frozen):
    """One Kafka cluster: its alias, where to find it, and client properties by their librdkafka names.

    `mirror_principal`: whom the cluster takes the mirror for, None: not said. `admin_properties`: client properties
    of those credentials that change access control lists, given in place of the mirror's or beside them.
    """

    name: PlainName
    bootstrap_servers: Annotated[str, Field(min_length=1)]
    properties: Mapping[str, PropertyValue] = Field(default_factory=dict)
    mirror_principal: Annotated[str, Field(pattern=f"^{PRINCIPAL_PATTERN}$")] | None = None
    admin_properties: Mapping[str, PropertyValue] = Field(default_factory=dict)

    @property
    def administrator(self) -> str | None:
        """Whom the cluster takes those who change access control lists for, None: their login does not say."""
        name = self.for_administration.properties.get("sasl.username")
        return f"User:{name}" if isinstance(name, str) else None

    @property
    def without_effect(self) -> list[str]:
        """Client properties that are configured and change nothing."""
        return sorted(TUNING_PROPERTIES & (self.properties.keys() | self.admin_properties.keys()))

    @property
    def for_administration(self) -> "ClusterConfig":
        """The same cluster, reached with the credentials that change access control lists."""
        return self.model_copy(update={"properties": {**self.properties, **self.admin_properties}})


# App ----------------------------------------------------------------------------------------------
# One application that writes what it reads: its groups, and the topics that it writes to.


_Names = Annotated[tuple[str, ...], Field(min_length=1, strict=False)]


class AppConfig(Frozen):
    """A declared application, by the names that its groups and topics have where it runs.

    Its commits stand for what it wrote: at another cluster none of them is to run ahead of its outputs.
    """

    groups: _Names
    outputs: _Names
