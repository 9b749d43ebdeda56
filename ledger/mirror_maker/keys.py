"""Keys that MirrorMaker 2, Kafka Connect and Kafka's clients have, of releases 2.4 to 4.3, and what they come to here.

What depends on the value of a key, or on other keys, is decided in `translating` and `logins`; the rest stands here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from ledger.config.values import CLIENT_RACK, TUNING_PROPERTIES


class Verdict(StrEnum):
    """What becomes of a key."""

    TAKEN = "taken"
    """It is expressed by keys of the configuration."""
    DIFFERS = "differs"
    """What it is about is done in another way here; the remark says how."""
    NO_MEANING = "no_meaning"
    """There is nothing here that it could be about; the remark says why."""
    NOT_YET = "not_yet"
    """It cannot be expressed: somebody has to decide or to write it; the remark says what."""
    IGNORED = "ignored"
    """MirrorMaker itself does not use it: a typing error, a wrong place, or a later line that counts instead."""


class Form(StrEnum):
    """What a value has to be."""

    TEXT = "text"
    BOOLEAN = "boolean"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What becomes of a key whatever its value."""

    verdict: Verdict
    remark: str
    form: Form = Form.TEXT


# Meanings -----------------------------------------------------------------------------------------


_ITS_TOPICS = "the ledger takes the place of this topic"
_ITS_WORKERS = "there are no workers of Kafka Connect"
_BYTES = "record batches are copied as the bytes that they are"
_TUNES = "it tunes Java's clients; the mirror's connections are its own"
_BY_VALUE = "see the configuration"
_LOGIN = "see the table of the cluster"


def _of(verdict: Verdict, remark: str, *names: str, form: Form = Form.TEXT) -> dict[str, Meaning]:
    return {name: Meaning(verdict, remark, form) for name in names}


OLD_NAMES: Mapping[str, str] = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Names before Kafka 2.8, and those since. Kafka 4.0 and later do not know the old ones."""

CONNECTOR_KEYS: Mapping[str, Meaning] = {
    **_of(Verdict.TAKEN, _BY_VALUE, "enabled", form=Form.BOOLEAN),
    **_of(Verdict.TAKEN, _BY_VALUE, "topics", "topics.exclude", "groups", "groups.exclude"),
    **_of(Verdict.TAKEN, _BY_VALUE, "config.properties.exclude", *OLD_NAMES),
    **_of(Verdict.TAKEN, _BY_VALUE, "replication.policy.class", "replication.policy.separator"),
    **_of(Verdict.TAKEN, _BY_VALUE, "source.cluster.alias", "target.cluster.alias"),
    **_of(Verdict.TAKEN, _BY_VALUE, "replication.factor", "tasks.max", form=Form.NUMBER),
    **_of(Verdict.TAKEN, _BY_VALUE, "refresh.topics.interval.seconds", form=Form.NUMBER),
    **_of(Verdict.TAKEN, _BY_VALUE, "sync.group.offsets.interval.seconds", form=Form.NUMBER),
    **_of(Verdict.TAKEN, _BY_VALUE, "sync.group.offsets.enabled", form=Form.BOOLEAN),
    **_of(Verdict.TAKEN, _BY_VALUE, "sync.topic.configs.enabled", form=Form.BOOLEAN),
    **_of(Verdict.TAKEN, _BY_VALUE, "sync.topic.acls.enabled", form=Form.BOOLEAN),
    **_of(
        Verdict.DIFFERS,
        "new topics and partitions are always checked for, every topic_refresh_seconds",
        "refresh.topics.enabled",
        form=Form.BOOLEAN,
    ),
    **_of(
        Verdict.DIFFERS,
        "groups are always read, every checkpoint_seconds (5)",
        "refresh.groups.enabled",
        form=Form.BOOLEAN,
    ),
    **_of(
        Verdict.DIFFERS,
        "groups are read every checkpoint_seconds (5): more rarely makes answers older",
        "refresh.groups.interval.seconds",
        form=Form.NUMBER,
    ),
    **_of(Verdict.TAKEN, _BY_VALUE, "emit.checkpoints.enabled", "emit.heartbeats.enabled", form=Form.BOOLEAN),
    **_of(
        Verdict.DIFFERS,
        "commits are recorded every checkpoint_seconds (5), and written as emit_checkpoints says as often as "
        "sync_groups_seconds",
        "emit.checkpoints.interval.seconds",
        form=Form.NUMBER,
    ),
    **_of(
        Verdict.DIFFERS, "one is written each second", "emit.heartbeats.interval.seconds", form=Form.NUMBER
    ),
    **_of(
        Verdict.DIFFERS,
        "topics of heartbeats are left out; let_in brings them in",
        "heartbeats.replication.enabled",
        form=Form.BOOLEAN,
    ),
    **_of(
        Verdict.DIFFERS,
        "changes of settings follow every topic_refresh_seconds",
        "sync.topic.configs.interval.seconds",
        form=Form.NUMBER,
    ),
    **_of(
        Verdict.DIFFERS,
        "where acls is set, rules follow every topic_refresh_seconds",
        "sync.topic.acls.interval.seconds",
        form=Form.NUMBER,
    ),
    **_of(
        Verdict.DIFFERS,
        "defaults of the source's brokers are not copied, only what is set at a topic",
        "use.defaults.from",
    ),
    **_of(
        Verdict.NO_MEANING,
        "every offset is recorded, not one in so many",
        "offset.lag.max",
        form=Form.NUMBER,
    ),
    **_of(
        Verdict.NO_MEANING,
        "which offsets became which is in the ledger, and nothing is written to the source",
        "offset-syncs.topic.location",
    ),
    **_of(
        Verdict.NO_MEANING,
        "which offsets became which is always recorded",
        "emit.offset-syncs.enabled",
        form=Form.BOOLEAN,
    ),
    **_of(
        Verdict.NO_MEANING,
        _ITS_TOPICS,
        "offset-syncs.topic.replication.factor",
        "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
        form=Form.NUMBER,
    ),
    **_of(
        Verdict.NO_MEANING,
        "there are no internal topics to name",
        "replication.policy.internal.topic.separator.enabled",
        form=Form.BOOLEAN,
    ),
    **_of(
        Verdict.NOT_YET,
        "a class of your own decides: write topics, groups or configuration_exclude as it does",
        *("topic.filter.class", "group.filter.class", "config.property.filter.class"),
    ),
    **_of(
        Verdict.NO_MEANING,
        "the mirror administers clusters by itself, without a class of Java",
        "forwarding.admin.class",
    ),
    **_of(
        Verdict.NO_MEANING,
        "the mirror waits for clusters as long as it takes, and says so",
        "admin.timeout.ms",
        "consumer.poll.timeout.ms",
        form=Form.NUMBER,
    ),
    **_of(Verdict.NO_MEANING, "names of metrics are the mirror's own", "metric.names.formats"),
    **_of(Verdict.NO_MEANING, "names of metrics are the mirror's own", "add.source.alias.to.metrics"),
    **_of(Verdict.NO_MEANING, "settings are always changed one by one", "use.incremental.alter.configs"),
    **_of(Verdict.NO_MEANING, "a flow has its name in its table", "name", "connector.class"),
    **_of(Verdict.NO_MEANING, _ITS_WORKERS, "connector.plugin.version", "config.action.reload"),
    **_of(Verdict.NO_MEANING, _ITS_WORKERS, "tasks.max.enforce"),
    **_of(Verdict.NO_MEANING, _BYTES, "key.converter", "value.converter", "header.converter"),
    **_of(Verdict.NO_MEANING, "there are no reporters of Java", "metric.reporters"),
    **_of(
        Verdict.NOT_YET,
        "records are not changed on their way; a filter of the flow can leave some out",
        "transforms",
        "predicates",
    ),
    **_of(
        Verdict.DIFFERS,
        "a record that the target refuses stops its partition, or goes to a dead letter topic (dead_letters)",
        "errors.tolerance",
        "errors.retry.timeout",
        "errors.retry.delay.max.ms",
        "errors.log.enable",
        "errors.log.include.messages",
    ),
}
"""Keys of the three connectors."""

MAKER_KEYS: Mapping[str, Meaning] = {
    **_of(Verdict.TAKEN, "a table for each cluster", "clusters"),
    **_of(
        Verdict.NO_MEANING, "one driver of a flow is at work at a time", "dedicated.mode.enable.internal.rest"
    ),
    **_of(Verdict.DIFFERS, "secrets are references: { env = } or { file = }", "config.providers"),
}
"""Keys of the dedicated process itself."""

WORKER_KEYS: Mapping[str, Meaning] = {
    **_of(
        Verdict.NO_MEANING,
        _ITS_TOPICS,
        *(f"{topic}.storage.topic" for topic in ("offset", "config", "status")),
        *(f"{topic}.storage.replication.factor" for topic in ("offset", "config", "status")),
        *(f"{topic}.storage.partitions" for topic in ("offset", "status")),
    ),
    **_of(Verdict.NO_MEANING, "the mirror reads without a group", "group.id"),
    **_of(Verdict.NO_MEANING, "the mirror names itself", "client.id"),
    **_of(
        Verdict.NO_MEANING,
        "always once: the target takes each sequence of the flow's producer id once",
        "exactly.once.source.support",
    ),
    **_of(
        Verdict.NO_MEANING,
        _ITS_WORKERS,
        *("plugin.path", "listeners", "rest.port", "rest.host.name", "rest.advertised.host.name"),
        *("rest.advertised.port", "rest.advertised.listener", "rest.extension.classes", "admin.listeners"),
        *("access.control.allow.origin", "access.control.allow.methods", "response.http.headers.config"),
        *("connector.client.config.override.policy", "offset.flush.interval.ms", "offset.flush.timeout.ms"),
        *("task.shutdown.graceful.timeout.ms", "rebalance.timeout.ms", "scheduled.rebalance.max.delay.ms"),
        *("worker.sync.timeout.ms", "worker.unsync.backoff.ms", "connect.protocol", "plugin.discovery"),
        *("inter.worker.key.generation.algorithm", "inter.worker.key.size", "inter.worker.key.ttl.ms"),
        *("inter.worker.signature.algorithm", "inter.worker.verification.algorithms"),
        *("topic.creation.enable", "topic.tracking.enable", "topic.tracking.allow.reset"),
        *("internal.key.converter", "internal.value.converter", "ssl.client.auth"),
    ),
}
"""Keys of the workers of Kafka Connect."""

_ISOLATION = Meaning(
    Verdict.DIFFERS,
    "always read_committed: records of aborted transactions are not copied, and those of open ones wait",
)
_NO_IDEMPOTENCE = Meaning(
    Verdict.DIFFERS,
    "the flow writes with a producer id, so that nothing is there twice: a target that takes none cannot be one",
)

CLIENT_KEYS: Mapping[str, Meaning] = {
    **_of(
        Verdict.TAKEN, _LOGIN, "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config"
    ),
    **_of(
        Verdict.TAKEN,
        _LOGIN,
        *("sasl.client.callback.handler.class", "sasl.login.callback.handler.class"),
        *("sasl.kerberos.service.name", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope"),
        *(
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
        ),
    ),
    **_of(
        Verdict.NOT_YET,
        "the mirror cannot log in this way",
        *("sasl.login.class", "sasl.oauthbearer.assertion.file"),
    ),
    **_of(
        Verdict.NO_MEANING,
        "tickets come by the keytab, tokens are checked by brokers",
        *("sasl.kerberos.kinit.cmd", "sasl.oauthbearer.jwks.endpoint.url"),
    ),
    **_of(
        Verdict.TAKEN,
        _LOGIN,
        *(
            f"ssl.{store}.{what}"
            for store in ("truststore", "keystore")
            for what in ("location", "password", "type")
        ),
        *("ssl.key.password", "ssl.endpoint.identification.algorithm", "ssl.truststore.certificates"),
        *("ssl.keystore.key", "ssl.keystore.certificate.chain"),
    ),
    **_of(
        Verdict.DIFFERS,
        "it is as the TLS library of this machine is set up",
        *(
            "ssl.protocol",
            "ssl.enabled.protocols",
            "ssl.cipher.suites",
            "ssl.provider",
            "ssl.engine.factory.class",
        ),
        *("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation"),
    ),
    "isolation.level": _ISOLATION,
    "enable.idempotence": _NO_IDEMPOTENCE,
    **_of(Verdict.DIFFERS, "start: see the configuration", "auto.offset.reset"),
    **_of(Verdict.NO_MEANING, "the mirror waits for all replicas", "acks"),
    **_of(Verdict.NO_MEANING, f"{_BYTES}, with their compression", "compression.type", "compression.level"),
    **_of(
        Verdict.DIFFERS,
        "batches keep their size; one that the target does not take is cut into records",
        *("max.request.size", "batch.size", "linger.ms", "buffer.memory", "max.block.ms"),
    ),
    **_of(Verdict.NO_MEANING, "the mirror reads without a group", "group.instance.id", "enable.auto.commit"),
    **_of(Verdict.TAKEN, _LOGIN, CLIENT_RACK),
    **_of(Verdict.NO_MEANING, _BYTES, "key.serializer", "value.serializer"),
    **_of(Verdict.NO_MEANING, _BYTES, "key.deserializer", "value.deserializer", "interceptor.classes"),
    **_of(
        Verdict.NO_MEANING,
        _TUNES,
        *(TUNING_PROPERTIES - {"compression.type", "compression.level", "batch.size", "linger.ms"}),
        *("max.poll.records", "default.api.timeout.ms", "receive.buffer.bytes", "send.buffer.bytes"),
        *(
            "fetch.max.wait.ms",
            "connections.max.idle.ms",
            "metadata.max.idle.ms",
            "retries",
            "group.protocol",
        ),
        *(
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "auto.include.jmx.reporter",
        ),
        *("partitioner.class", "socket.connection.setup.timeout.max.ms", "exclude.internal.topics"),
    ),
}
"""Properties of Kafka's clients in Java."""

_TUNED_LOGINS = re.compile(
    r"sasl\.(login\.(refresh|retry|connect|read)\.|kerberos\.|oauthbearer\.)[a-z.]+(?<!secret)(?<!passphrase)"
)
"""Of the same: how and how often a login is refreshed or checked."""

_ROLES = tuple(
    f"{side}{role}."
    for side in ("source.", "target.", "")
    for role in ("consumer.override", "producer.override", "admin.override", "consumer", "producer", "admin")
)
"""What stands in front of a property of one of the clients of a connector or worker."""
SIDES = ("source.cluster.", "target.cluster.")
"""What stands in front of a property of all clients of one cluster, in the configuration of a connector."""
_FAMILIES: Mapping[str, Meaning] = {
    "offset-syncs.topic.": Meaning(Verdict.NO_MEANING, _ITS_TOPICS),
    "checkpoints.topic.": Meaning(Verdict.NO_MEANING, _ITS_TOPICS),
    "config.providers.": Meaning(Verdict.DIFFERS, "secrets are references: { env = } or { file = }"),
    "transforms.": CONNECTOR_KEYS["transforms"],
    "predicates.": CONNECTOR_KEYS["predicates"],
    "key.converter.": Meaning(Verdict.NO_MEANING, _BYTES),
    "value.converter.": Meaning(Verdict.NO_MEANING, _BYTES),
    "header.converter.": Meaning(Verdict.NO_MEANING, _BYTES),
    "topic.creation.": Meaning(Verdict.DIFFERS, "target topics are created as their sources are"),
    "metrics.": Meaning(Verdict.NO_MEANING, "there are no reporters of Java"),
    "prometheus.metrics.reporter.": Meaning(Verdict.NO_MEANING, "there are no reporters of Java"),
    "ssl.": Meaning(Verdict.DIFFERS, "it is as the TLS library of this machine is set up"),
}
_ALL: Mapping[str, Meaning] = {**CLIENT_KEYS, **WORKER_KEYS, **MAKER_KEYS, **CONNECTOR_KEYS}
_WORKER_FAMILIES = (
    *("offset.storage", "config.storage", "status.storage", "key.converter", "value.converter"),
    *("header.converter", "task", "worker", "replication.policy", "config.providers"),
)
"""What the dedicated process hands from the top level of its file to workers and connectors."""


def without_role(name: str) -> str:
    """A property of a client without what says of which client, or the name as it is."""
    for start in (*SIDES, *_ROLES):
        if name.startswith(start) and name != start and name not in CONNECTOR_KEYS:
            return name.removeprefix(start)
    return name


def meaning_of(name: str) -> Meaning | None:
    """What becomes of a key without the aliases in front of it; None: nobody has such a key."""
    if (known := _ALL.get(name)) is not None:
        return known
    base = without_role(name)
    if base != name:
        found = CLIENT_KEYS.get(base) or WORKER_KEYS.get(base)
        if found is not None:
            return found
    if _TUNED_LOGINS.fullmatch(base):
        return CLIENT_KEYS.get(base) or Meaning(Verdict.NO_MEANING, _TUNES)
    starts = (meaning for start, meaning in _FAMILIES.items() if base.startswith(start) and start != "ssl.")
    return next(starts, None)


def is_read_at_top(name: str) -> bool:
    """Whether the dedicated process uses a key that stands in front of nothing."""
    return (
        name in CONNECTOR_KEYS.keys() - {"use.defaults.from"}
        or name in MAKER_KEYS
        or (name in CLIENT_KEYS and name.startswith(("bootstrap.servers", "security.", "sasl.", "ssl.")))
        or bool(_TUNED_LOGINS.fullmatch(name))
        or name.startswith(_WORKER_FAMILIES)
    )


def is_read_of_cluster(name: str) -> bool:
    """Whether it uses a key that stands behind the alias of a cluster alone."""
    return name not in CONNECTOR_KEYS or name.startswith(
        ("key.converter", "value.converter", "header.converter", "replication.policy", "metric.reporters")
    )


def nearest(name: str) -> str | None:
    """The key that was probably meant."""
    wanted = name.strip("\"' ,").lower()
    base = without_role(wanted)
    start = wanted.removesuffix(base)
    if base != name and meaning_of(wanted) is not None:
        return wanted
    # max.tasks for tasks.max
    swapped = ".".join(reversed(base.split(".")))
    if swapped in _ALL:
        return start + swapped
    found = get_close_matches(base, sorted(_ALL), n=1, cutoff=0.85)
    return start + found[0] if found else None


# Secrets ------------------------------------------------------------------------------------------


_SECRET = re.compile(
    r"passw|passphrase|secret|jaas|credential|token(?!\.endpoint)|assertion|keystore\.key$|private|\bpwd\b|\bpass\b",
    re.IGNORECASE,
)
HIDDEN = "(not shown)"


def is_secret(name: str) -> bool:
    """Whether the value of such a key may be a secret, misspelt or not."""
    return bool(_SECRET.search(name))


def shown_value(name: str, value: str) -> str:
    """The value as it may be printed: of keys that are known and no secrets."""
    return HIDDEN if is_secret(name) or meaning_of(name) is None or _SECRET.search(value) else value


_WORDS = frozenset(word for name in _ALL for word in re.split(r"[.-]", name) if len(word) > 3)


def shown_key(key: str) -> str:
    """A key as it may be printed. What is no key at all may be the second line of a secret."""
    words = re.split(r"[.\->\"' ,]+", key)
    has_known_word = any(get_close_matches(word, _WORDS, n=1, cutoff=0.75) for word in words if word)
    is_like_one = nearest(key) is not None or ("." in key and has_known_word)
    return key if meaning_of(key) is not None or (is_like_one and len(key) < 120) else HIDDEN
