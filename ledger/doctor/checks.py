"""What is checked, and how a check can come out. `make references` writes it to `ledger/CHECKS.md` for people."""

from collections.abc import Mapping
from enum import StrEnum

from ledger.errors import Trouble


class Verdict(StrEnum):
    """How a check came out, worst first."""

    FAILED = "failed"
    """The mirror does not work, or loses something, as it is: exit code 4."""
    UNKNOWN = "unknown"
    """It could not be measured, and never counts as in order: exit code 4."""
    WARNING = "warning"
    """It works, and something is weaker than it could be: exit code 4 with `--strict`."""
    SKIPPED = "skipped"
    """It cannot be measured by design, or was not requested; it does not count."""
    OK = "ok"
    """It is in order."""


class Check(StrEnum):
    """One thing that is checked: what it is about, its question, and when it comes out badly, if it ever does."""

    BOOTSTRAP_ADDRESS = "bootstrap_address"
    """Cluster: does every configured address answer? Failed: an address does not connect, log in and answer
    in time. Warning: nobody answers there, and the cluster is reached at another, or at one that the ledger has."""
    ADVERTISED_BROKER = "advertised_broker"
    """Broker: does every broker answer at the address that the cluster gives clients? Failed: a broker does
    not connect, log in and answer in time."""
    TLS_CERTIFICATE = "tls_certificate"
    """Broker: how long is the broker's certificate valid? Failed: it has expired, or is not valid yet.
    Warning: it expires within 14 days."""
    CLIENT_CERTIFICATE = "client_certificate"
    """Cluster: how long is the mirror's own certificate valid? Failed: it has expired, or is not valid yet.
    Warning: it expires within 14 days."""
    CLIENT_PROPERTIES = "client_properties"
    """Cluster: does every client property that is configured have an effect? Warning: one only tunes librdkafka,
    and the mirror's connections are its own."""
    CLUSTER_IDENTITY = "cluster_identity"
    """Cluster: is the alias the cluster that the ledger recorded under it? Failed: the Kafka cluster id is
    another than at the last claim."""
    BROKER_VERSION = "broker_version"
    """Broker: does the broker speak the requests that its side of a flow needs? Failed: a request that is
    needed is missing, or topics have no ids. Warning: a request is missing that something weaker can replace."""
    BROKER_CLOCK = "broker_clock"
    """Broker: how far is the broker's clock from this machine's? (target, with --probe) Warning: they differ
    by more than a second."""
    ENABLED = "enabled"
    """Flow: is the flow disabled by the configuration? (a row only for those that are) Warning: it was named
    although enabled = false."""
    SELECTED_TOPICS = "selected_topics"
    """Flow: does every pattern of topics, and every rename rule, select a topic that the principal can see?
    Warning: one of them selects none, or a name is excluded that no topic has."""
    SELECTED_GROUPS = "selected_groups"
    """Flow: does every pattern of groups match a group that the principal can see? Warning: one of them (.*
    apart) matches none, or a name is excluded that no group has."""
    TOPIC_NAMES = "topic_names"
    """Flow: does every target topic have a name, of its own also in metrics, where . and _ are the same?
    Failed: a source topic cannot have its target name: not a name, its own, or another topic's. Warning: two
    of them have one, or a target topic and another topic of the target."""
    SOURCE_PERMISSIONS = "source_permissions"
    """Flow: may the principal read what the flow reads at the source? Failed: an operation on a topic or
    group is missing. Warning: only some groups can be seen."""
    SOURCE_EXCESS = "source_excess"
    """Flow: may the principal do more than read at the source? Warning: it may write, alter or delete, or
    nothing is forbidden to anybody there."""
    TARGET_PERMISSIONS = "target_permissions"
    """Flow: may the principal create, write, read and configure the target topics? Failed: an operation is
    missing. Warning: only some groups can be seen."""
    TARGET_WRITERS = "target_writers"
    """Flow: may anybody but the mirror write to target topics that are the flow's own? Warning: a rule lets
    another principal write there before it is promoted, or nothing is forbidden to anybody there."""
    TARGET_RECORDS = "target_records"
    """Flow: are target topics that are the flow's own empty until it copies? Failed: one holds records though the
    flow has copied nothing there: it stops at them (foreign_write)."""
    RECORDED_PERMISSIONS = "recorded_permissions"
    """Flow: may the recorders read what both clusters allow to whom? Warning: Describe or DescribeConfigs is
    missing on a cluster: a kind is recorded as not_permitted."""
    RETENTION_TIME = "retention_time"
    """Flow: how long until the source deletes by age what is not copied yet? Failed: the flow's position lies
    before the log start: records were deleted. Warning: less than a quarter of the retention time is left
    (--retention-left)."""
    RETENTION_BYTES = "retention_bytes"
    """Flow: how many bytes until the source deletes by size what is not copied yet? Warning: less than a
    quarter of the retention size is left (--retention-left)."""
    TOMBSTONES = "tombstones"
    """Flow: are tombstones of compacted source topics copied before the cleaner drops them? Warning: a
    position has less than a quarter of delete.retention.ms left (--retention-left)."""
    BATCH_SIZE = "batch_size"
    """Flow: does the target take the largest batch that the source takes? Failed: socket.request.max.bytes
    of a broker is smaller. Warning: max.message.bytes of a target topic is smaller: larger batches, if any
    come, are copied in smaller ones; or replica.fetch.max.bytes of a target broker is: replication slows
    down."""
    TARGET_REPLICATION = "target_replication"
    """Flow: do copied records survive the loss of a target broker? Failed: replicas or in-sync replicas are
    asked for that the target does not have. Warning: one replica, one in-sync replica, unclean elections, or
    fewer replicas than at the source."""
    TARGET_PARTITIONS = "target_partitions"
    """Flow: do partitions of source and target topics match? Warning: a target topic has more, or fewer until
    the flow adds them."""
    TARGET_SETTINGS = "target_settings"
    """Flow: do target topics keep records as the bytes and times that they are, and for as long? Warning: a
    setting changes or refuses records, they expire sooner than at the source, or the target would not take a
    setting (asked by a creation that it only validates)."""
    RECORD_PATH = "record_path"
    """Flow: which topics are not copied as the batches that they are, and why? LogAppendTime, a filter,
    cleaners, or a limit at the target: slower, and other bytes for the same records."""
    TOOL_TOPICS = "tool_topics"
    """Flow: which topics of a schema registry, Kafka Connect or Kafka Streams are at the source, is each
    mirrored or left out, and what follows from that?"""
    PRODUCER_STATE = "producer_state"
    """Broker: how long does a target broker remember a producer that is silent? Warning:
    producer.id.expiration.ms is below an hour."""
    COMPARE_AND_APPEND = "compare_and_append"
    """Cluster: does the target refuse what was written already? (with --probe) Failed: it accepts a
    repetition, a hole or an overlap, or the probe's topic stays behind."""
    LEDGER_TABLES = "ledger_tables"
    """Ledger: are all tables there, of the format of this program? Failed: a table is missing,
    unreadable or of another format."""
    LEDGER_APPEND_ONLY = "ledger_append_only"
    """Ledger: do all tables refuse updates and deletes? Failed: delta.appendOnly is not true."""
    LEDGER_RETENTION = "ledger_retention"
    """Ledger: do superseded files and entries of the log stay as long as readers may need them? Warning: they
    may be removed within an hour, or nobody knows when."""
    LEDGER_CHECKPOINTS = "ledger_checkpoints"
    """Ledger: how often does an append write a checkpoint? Warning: more often than every 50 commits, or less
    often than every 1000."""
    LEDGER_HISTORY = "ledger_history"
    """Ledger: has anybody rewritten a table? Failed: its history has a restore, an overwrite, a delete, an
    update or a merge. Warning: its history has an operation that no part of this program does."""
    LEDGER_MAINTENANCE = "ledger_maintenance"
    """Ledger: are small files merged, and old entries of the log removed? Warning: 200 files of a table wait
    to be merged, or 1,000 entries of its log should have been removed an hour ago."""
    LEDGER_COMMITS = "ledger_commits"
    """Ledger: when was the newest commit of each table?"""
    LEDGER_CLOCKS = "ledger_clocks"
    """Ledger: do the recorded times of each writer rise from round to round? Warning: within seven days a
    time was more than a second earlier than that of the writer's append before."""
    LEDGER_EXCLUSIVE_CREATE = "ledger_exclusive_create"
    """Ledger: does the store refuse to create a file that exists? (local folders) Failed: of two creations of
    one file, the second succeeds."""
    LEDGER_PLACE = "ledger_place"
    """Ledger: does the ledger outlive the source?"""
    LEDGER_DISK = "ledger_disk"
    """Ledger: how much room is left where the ledger is? (local folders) Failed: less than 512 MiB. Warning:
    less than 5 GiB."""
    JAVA = "java"
    """Machine: is there a Java for Spark? Failed: none, or older than 17."""
    PYTHON = "python"
    """Machine: is this Python one that the mirror runs on? Failed: older than 3.11."""


# Advice -------------------------------------------------------------------------------------------
# What to do about a trouble. The reason beside it names the address, the variable, the file.


OF_TROUBLE: Mapping[Trouble, str] = {
    Trouble.SECRET: "set the variable, or write the file, where doctor and the mirror run; nothing was sent yet",
    Trouble.TLS_FILES: "correct the location of that file or its password; the mirror has to be allowed to read it",
    Trouble.OWN_CERTIFICATE: "renew the mirror's certificate if it has expired, else let the broker trust who signed "
    "it; where none is configured, set ssl.certificate.location and ssl.key.location, or ssl.keystore.location",
    Trouble.NAME: "correct the host name, or the name service of this machine",
    Trouble.REFUSED: "nobody listens there: start the broker, or correct the port",
    Trouble.UNREACHABLE: "nothing comes back from there: correct the address, or open the route or firewall",
    Trouble.NO_ANSWER: "it accepts connections and does not answer in time: check whether the broker hangs, is paused "
    "or overloaded, and whether the port is a broker's",
    Trouble.CLOSED: "it closes connections: the port may ask for a login (set security.protocol to sasl_plaintext or "
    "sasl_ssl), or is no broker's; the broker's log says which",
    Trouble.NEEDS_TLS: "set security.protocol to ssl or sasl_ssl, or take the address of a listener without TLS",
    Trouble.NO_TLS: "the port speaks no TLS: take the address of the TLS listener, or set security.protocol to "
    "plaintext or sasl_plaintext",
    Trouble.TLS: "compare the TLS versions of both sides, and whether the broker asks for a certificate of the mirror",
    Trouble.AUTHORITY: "set ssl.ca.location or ssl.truststore.location to the certificate of who signed the broker's",
    Trouble.STRICT: "have the certificates made with these extensions, or leave out ssl.verification.strict",
    Trouble.HOST_NAME: "use the name that the certificate is for, or have one made for this name; "
    'ssl.endpoint.identification.algorithm = "none" leaves the name unchecked',
    Trouble.EXPIRED: "renew the broker's certificate; when it is valid, set this machine's clock",
    Trouble.CREDENTIALS: "the broker says why: where the user is not known or the password is wrong, correct "
    "sasl.username and sasl.password, or make the user at the broker; where it takes no login for a time, wait, or let "
    "it take more",
    Trouble.LOGIN: "correct that property of the cluster",
    Trouble.TOKEN: "compare issuer, audience, scope and claims of the token with what the broker expects, and "
    "the clocks of both",
    Trouble.TOKEN_EXPIRED: "have whoever writes the file write a new token, and do so before the old one ends",
    Trouble.TOKEN_ENDPOINT: "correct sasl.oauthbearer.token.endpoint.url, open the route to it, or set "
    "https.ca.location to the certificate of who signed its own",
    Trouble.TOKEN_CLIENT: "correct sasl.oauthbearer.client.id, .client.secret and .scope, or make the client there",
    Trouble.AWS: "set AWS_REGION, and give the mirror credentials as AWS's clients find them (variables, a profile, a "
    "role of the machine)",
    Trouble.KERBEROS: "correct sasl.kerberos.principal, .keytab and .service.name, or make the principals of the "
    "mirror and of the broker; the keytab has to hold the principal's present key",
    Trouble.KDC: "correct the realm in krb5.conf, or open the route to its KDC",
    Trouble.EXTRA: "install it: pip install 'mirror-ledger[NAME]' with the name in brackets",
    Trouble.MECHANISM: "set sasl.mechanism to one that is offered; where none is, security.protocol to plaintext or "
    "ssl",
    Trouble.NOT_ALLOWED: "grant it to the mirror's principal",
    Trouble.NO_TOPIC_IDS: "upgrade the brokers, or set inter.broker.protocol.version of each to its own release",
    Trouble.NOT_SPOKEN: "nothing, if what is missing is not needed; else upgrade the brokers",
    Trouble.LEDGER: "check ledger.path and the rights to it; `mirror-ledger init` makes a ledger where there is none",
}
