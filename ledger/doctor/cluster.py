"""One cluster examined: first whether it answers at all, then, only if it does, everything else."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from ledger.doctor.checks import Check, Verdict
from ledger.doctor.measurements import (
    AppendObservation,
    Broker,
    ClockObservation,
    Operation,
    Reach,
    Send,
    Settings,
    Validity,
)
from ledger.doctor.permissions import Granting
from ledger.doctor.probes import ClusterProbe, TargetProbe
from ledger.doctor.results import CheckResult, Unmeasured, duration, failed, measure, unknown
from ledger.errors import Trouble
from ledger.facts.syncs import SEQUENCE_MODULUS
from ledger.kafka.admin import KafkaAdmin
from ledger.kafka.cluster import TopicDescription
from ledger.kafka.requests import ErrorCode
from ledger.kafka.spoken import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    FETCH,
    FETCH_BY_ID,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_GROUPS_OF_TYPES,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    METADATA,
    NEWEST,
    NO_TOPIC_IDS,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    PRODUCE_BY_ID,
    Spoken,
    Versions,
)

# Probing ------------------------------------------------------------------------------------------
# The probe of a target's compare-and-append: what is sent, what must be answered, and the verdict.
#
# Partition 0 shows that a repetition is answered and not written, also after records of another producer,
# and that a hole and an overlap are refused. Partition 1 shows the same where sequences wrap around.


CLOCK_WARNING_MS = 1_000
PRODUCER_STATE_WARNING_MS = 3_600_000
_LAST = SEQUENCE_MODULUS - 1


@dataclass(frozen=True, slots=True)
class Expectation:
    """A batch, what it shows, and its answer: the first offset, or None for a refusal with 45."""

    shows: str
    send: Send
    offset: int | None


SCRIPT = (
    Expectation("a first batch is written", Send(0, 0, 3), 0),
    Expectation("the same batch again is answered with its first offset", Send(0, 0, 3), 0),
    Expectation("another producer's batch is written behind it", Send(0, 0, 2, own=False), 3),
    Expectation("the first batch again, after foreign records, is answered as before", Send(0, 0, 3), 0),
    Expectation("the next batch goes behind the foreign records", Send(0, 3, 2), 5),
    Expectation("a batch that leaves a hole is refused", Send(0, 6, 1), None),
    Expectation("a batch that overlaps is refused", Send(0, 4, 2), None),
    Expectation("a batch of another length from a known sequence is refused", Send(0, 3, 3), None),
    Expectation("a batch across the last sequence is written", Send(1, _LAST - 1, 4), 0),
    Expectation("the same batch again is answered with its first offset", Send(1, _LAST - 1, 4), 0),
    Expectation("the next batch starts after the wrap", Send(1, 2, 1), 4),
    Expectation("a hole after the wrap is refused", Send(1, 4, 1), None),
)
SENDS = tuple(expectation.send for expectation in SCRIPT)
ENDS = {0: 7, 1: 5}
_GIVEN_IDS = (
    "start applications of other clusters again: one with the mirror's producer id would count as the mirror"
)
NOT_ASKED = "not asked for: --probe creates and deletes a topic at the target"


def compare_and_append(subject: str, observed: AppendObservation | Unmeasured) -> CheckResult:
    """Whether every answer was the one that exactly-once rests on."""
    check = Check.COMPARE_AND_APPEND
    if isinstance(observed, Unmeasured):
        return unknown(subject, check, observed)
    wrong = [*_wrong_answers(observed), *_wrong_ends(observed.ends)]
    if wrong:
        advice = "do not mirror to this cluster: repeated writes would leave duplicates or holes"
        return CheckResult(subject, check, Verdict.FAILED, "; ".join(wrong), advice)
    measured = (
        f"{len(SCRIPT)} of {len(SCRIPT)} answers as expected in topic {observed.topic}, deleted since: "
    )
    measured += (
        "repetitions are answered, holes and overlaps refused, also after foreign records and the wrap"
    )
    if not observed.takes_drawn:
        measured += "; it takes no producer id that it has not given"
        return CheckResult(subject, check, Verdict.WARNING, measured, _GIVEN_IDS)
    return CheckResult(subject, check, Verdict.OK, measured)


def _wrong_answers(observed: AppendObservation) -> Iterator[str]:
    for expectation, answer in zip(SCRIPT, observed.answers, strict=True):
        refused = answer.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        got = f"error {answer.error}" if answer.error else f"offset {answer.base_offset}"
        wanted = "error 45" if expectation.offset is None else f"offset {expectation.offset}"
        if got != wanted and not (expectation.offset is None and refused):
            yield f"{expectation.shows}: wanted {wanted}, got {got}"


def _wrong_ends(ends: Mapping[int, int]) -> Iterator[str]:
    for partition, wanted in ENDS.items():
        if ends.get(partition) != wanted:
            yield f"partition {partition} ends at {ends.get(partition)}, not at {wanted}"


# Clocks ----------------------------------------------------------------------------------------


def target_clocks(cluster: str, observed: Sequence[ClockObservation] | Unmeasured) -> Iterator[CheckResult]:
    """One result for each broker."""
    if isinstance(observed, Unmeasured):
        yield unknown(f"cluster {cluster}", Check.BROKER_CLOCK, observed)
    else:
        for one in observed:
            yield _clock(f"broker {cluster}/{one.node_id}", one)


def _clock(subject: str, one: ClockObservation) -> CheckResult:
    """The broker stamped somewhere between sending and answering: only what lies outside is its fault."""
    ahead_ms, behind_ms = one.stamped_ms - one.answered_ms, one.sent_ms - one.stamped_ms
    off_ms = max(ahead_ms, behind_ms, 0)
    if off_ms > CLOCK_WARNING_MS:
        direction = "ahead of" if ahead_ms > 0 else "behind"
        measured = f"at least {duration(off_ms)} {direction} this machine"
        advice = "set both clocks by NTP: lag in seconds, retention and --as-of times are off by that much"
        return CheckResult(subject, Check.BROKER_CLOCK, Verdict.WARNING, measured, advice)
    measured = f"within {duration(max(off_ms, one.answered_ms - one.sent_ms, 1))} of this machine's"
    return CheckResult(subject, Check.BROKER_CLOCK, Verdict.OK, measured)


# Producer state --------------------------------------------------------------------------------


def producer_state(cluster: str, brokers: Mapping[int, Settings] | Unmeasured) -> Iterator[CheckResult]:
    """How long target brokers remember producers, as they report it."""
    check = Check.PRODUCER_STATE
    if isinstance(brokers, Unmeasured):
        yield unknown(f"cluster {cluster}", check, brokers)
        return
    for node_id, settings in sorted(brokers.items()):
        yield _producer_state(f"broker {cluster}/{node_id}", settings)


def _producer_state(subject: str, settings: Settings) -> CheckResult:
    """Brokers before 3.5 do not tell the first of the two: then it is the second."""
    transactional = settings["transactional.id.expiration.ms"]
    producer = settings.get("producer.id.expiration.ms", transactional)
    measured = (
        f"producer.id.expiration.ms {producer} ({duration(int(producer))}), "
        f"transactional.id.expiration.ms {transactional} ({duration(int(transactional))})"
    )
    if int(producer) < PRODUCER_STATE_WARNING_MS:
        advice = (
            "raise producer.id.expiration.ms: after that pause only the tail of the log tells repetitions"
        )
        return CheckResult(subject, Check.PRODUCER_STATE, Verdict.WARNING, measured, advice)
    return CheckResult(subject, Check.PRODUCER_STATE, Verdict.OK, measured)


# Connectivity -------------------------------------------------------------------------------------
# Verdicts on brokers: do they answer, for how long are their certificates valid, what do they speak.


CERTIFICATE_WARNING_MS = 14 * 86_400_000
_DEAD = (Trouble.NAME, Trouble.REFUSED, Trouble.UNREACHABLE, Trouble.NO_ANSWER)


def reached(subject: str, check: Check, address: str, reach: Reach | Unmeasured) -> CheckResult:
    """Whether an address answers; no answer is the measurement here, not the lack of one."""
    if isinstance(reach, Unmeasured):
        return failed(subject, check, reach)
    return CheckResult(
        subject, check, Verdict.OK, f"{address} answered, connected in {reach.connect_ms:.0f} ms"
    )


def certificate(subject: str, check: Check, validity: Validity | Unmeasured, now_ms: int) -> CheckResult:
    """Whether a certificate is valid now and for the next two weeks."""
    if isinstance(validity, Unmeasured):
        return unknown(subject, check, validity)
    left_ms = validity.not_after_ms - now_ms
    if now_ms < validity.not_before_ms:
        measured = f"not valid before {duration(validity.not_before_ms - now_ms)} from now"
        return CheckResult(subject, check, Verdict.FAILED, measured, "check both clocks, or renew it")
    if left_ms <= 0:
        measured = f"expired {duration(-left_ms)} ago"
        return CheckResult(
            subject, check, Verdict.FAILED, measured, "renew it; no connection is made with it"
        )
    verdict = Verdict.WARNING if left_ms < CERTIFICATE_WARNING_MS else Verdict.OK
    advice = "renew it in time" if verdict is Verdict.WARNING else None
    return CheckResult(subject, check, verdict, f"expires in {duration(left_ms)}", advice)


def identity(subject: str, now: str | Unmeasured, recorded: str | Unmeasured | None) -> CheckResult:
    """Whether a cluster is the one that the ledger knows; `recorded` None: no writer ever claimed with it."""
    check = Check.CLUSTER_IDENTITY
    for value in (now, recorded):
        if isinstance(value, Unmeasured):
            return unknown(subject, check, value)
    if recorded is None:
        return CheckResult(subject, check, Verdict.OK, f"{now}; the ledger has recorded none yet")
    if now != recorded:
        alias = subject.removeprefix(_subject(""))
        meant = f"mirror-ledger accept-cluster {alias} --cluster-id {now} --reason WHY"
        advice = f"correct bootstrap_servers; or say that it is meant: {meant}"
        return CheckResult(subject, check, Verdict.FAILED, f"{now}, the ledger recorded {recorded}", advice)
    return CheckResult(subject, check, Verdict.OK, f"{now}, as recorded")


# Versions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Requirement:
    """A request in the versions of it that will do, and what is lost without them.

    `needed`: without it a flow does not run. Else something weaker takes its place.
    """

    spoken: Spoken
    needed: bool
    without: str


BOTH_SIDES = (
    Requirement(METADATA, True, f"it {NO_TOPIC_IDS}"),
    Requirement(LIST_OFFSETS, True, "ends of partitions cannot be read"),
    Requirement(FIND_COORDINATOR, True, "committed offsets cannot be recorded"),
    Requirement(OFFSET_FETCH, True, "committed offsets cannot be recorded"),
    Requirement(DESCRIBE_CONFIGS, False, "settings of topics are neither followed nor compared"),
    Requirement(FETCH, True, "record batches cannot be read with leader epochs"),
    Requirement(FETCH_BY_ID, False, "fetches go by topic name: topic ids are asked for behind each"),
    Requirement(LIST_GROUPS_OF_TYPES, False, "types of groups are not recorded"),
    Requirement(
        OFFSET_FOR_LEADER_EPOCH,
        False,
        "fences are proved by stillness alone: leaders do not tell the ends of their logs",
    ),
    Requirement(
        DESCRIBE_PRODUCERS,
        False,
        "what leaders remember of producers is not known: transactions that hang are not found",
    ),
    Requirement(
        LIST_TRANSACTIONS, False, "open transactions are not listed: a switchover cannot name who holds one"
    ),
    Requirement(DESCRIBE_TRANSACTIONS, False, "which partitions an open transaction is about is not known"),
)
TARGET_SIDE = (
    Requirement(PRODUCE, True, "record batches cannot be written"),
    Requirement(INIT_PRODUCER_ID, True, "no producer id, so nothing is written exactly once"),
    Requirement(CREATE_TOPICS, True, "target topics cannot be created"),
    Requirement(CREATE_PARTITIONS, False, "target topics cannot grow with their source"),
    Requirement(
        PRODUCE_BY_ID, False, "writes go by topic name: one may reach a topic that was just recreated"
    ),
    Requirement(INCREMENTAL_ALTER_CONFIGS, False, "changed settings cannot follow the source"),
)


def versions(subject: str, reach: Reach | Unmeasured, *, is_target: bool) -> Iterator[CheckResult]:
    """One result for each request that is missing, or one that says that none is."""
    check = Check.BROKER_VERSION
    if isinstance(reach, Unmeasured):
        yield unknown(subject, check, reach)
        return
    missing = list(_missing(BOTH_SIDES + (TARGET_SIDE if is_target else ()), reach.versions))
    for need in missing:
        verdict = Verdict.FAILED if need.needed else Verdict.WARNING
        yield CheckResult(
            subject, check, verdict, _spoken(need, reach), f"{need.without}; upgrade the broker"
        )
    if not missing:
        side = "target" if is_target else "source"
        yield CheckResult(subject, check, Verdict.OK, f"speaks all that a {side} needs")


def _missing(requirements: tuple[Requirement, ...], versions: Versions) -> Iterator[Requirement]:
    """What is not spoken. A request that is needed and missing is not reported again for its better version."""
    reported: set[int] = set()
    for need in requirements:
        if not need.spoken.is_spoken(versions) and need.spoken.key not in reported:
            reported.add(need.spoken.key)
            yield need


def _spoken(need: Requirement, reach: Reach) -> str:
    one = need.spoken
    is_single = one.newest in (one.oldest, NEWEST)
    wanted = f"{one.request} {one.oldest}" + ("" if is_single else f" to {one.newest}")
    spoken = reach.versions.get(one.key)
    return f"{wanted} is not spoken; " + (
        "the request is unknown" if spoken is None else f"{spoken[0]} to {spoken[1]} are"
    )


# Cluster examination ------------------------------------------------------------------------------


_AT_ONCE = 8
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ClusterMeasurements:
    """What a cluster answered. `unreachable` is set when no address did, and nothing more was asked then.

    `cluster_id`: which Kafka cluster stands behind the alias.
    """

    probe: ClusterProbe
    addresses: Mapping[str, Reach | Unmeasured]
    unreachable: Unmeasured | None
    brokers: Mapping[Broker, Reach | Unmeasured] | Unmeasured
    cluster_id: str | Unmeasured
    topics: Mapping[str, TopicDescription] | Unmeasured

    @property
    def alias(self) -> str:
        return self.probe.alias

    @property
    def admin(self) -> KafkaAdmin:
        return self.probe.admin

    @property
    def granting(self) -> Granting:
        return Granting(self.probe.servers, self.probe.principal)

    @property
    def node_ids(self) -> Sequence[int]:
        return () if isinstance(self.brokers, Unmeasured) else [broker.node_id for broker in self.brokers]

    @property
    def broker_count(self) -> int | Unmeasured:
        return self.brokers if isinstance(self.brokers, Unmeasured) else len(self.brokers)

    def is_one_with(self, other: "ClusterMeasurements") -> bool:
        """Two aliases may name the same cluster. One that does not say which it is, is taken for another one."""
        if isinstance(self.cluster_id, Unmeasured) or isinstance(other.cluster_id, Unmeasured):
            return self.alias == other.alias
        return self.cluster_id == other.cluster_id

    def ask(self, measurement: Callable[[], Value]) -> Value | Unmeasured:
        """Measure, unless it is known that nobody answers."""
        if self.unreachable is not None:
            return self.unreachable
        return _because_of_a_broker(measure(measurement, _subject(self.alias)), self.brokers)

    def broker_settings(self) -> Mapping[int, Settings] | Unmeasured:
        found = self.ask(lambda: self.probe.broker_settings(self.node_ids))
        if isinstance(found, Unmeasured) and found.trouble is Trouble.NOT_ALLOWED:
            command = self.granting.command([Operation.DESCRIBE_CONFIGS], [("cluster", None)])
            return replace(found, advice=command)
        return found


def measured_cluster(probe: ClusterProbe) -> ClusterMeasurements:
    """Reach the bootstrap addresses, or brokers that the ledger has; then every broker that the cluster advertises."""
    addresses = _reach_all(probe, probe.addresses())
    unreachable = _unreachable(probe.alias, addresses)
    has_others = measure(lambda: unreachable is not None and bool(probe.admin.connection.known()[1]))
    brokers = _reached_brokers(probe) if unreachable is None or has_others else unreachable
    if unreachable is not None and isinstance(brokers, Unmeasured):
        return ClusterMeasurements(probe, addresses, unreachable, unreachable, unreachable, unreachable)
    cluster_id = _because_of_a_broker(measure(probe.admin.cluster_id, _subject(probe.alias)), brokers)
    topics = _because_of_a_broker(measure(probe.admin.topics, _subject(probe.alias)), brokers)
    return ClusterMeasurements(probe, addresses, None, brokers, cluster_id, topics)


def _reached_brokers(probe: ClusterProbe) -> Mapping[Broker, Reach | Unmeasured] | Unmeasured:
    advertised = measure(probe.brokers, _subject(probe.alias))
    if isinstance(advertised, Unmeasured):
        return advertised
    reached = _reach_all(probe, [broker.address for broker in advertised])
    return {broker: reached[broker.address] for broker in advertised}


def _reach_all(probe: ClusterProbe, addresses: Sequence[str]) -> dict[str, Reach | Unmeasured]:
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        found = pool.map(lambda address: _reached(probe, address), addresses)
        return dict(zip(addresses, found, strict=True))


def _reached(probe: ClusterProbe, address: str) -> Reach | Unmeasured:
    return measure(lambda: probe.reach(address), f"cluster {probe.alias} at {address}")


def _unreachable(alias: str, addresses: Mapping[str, Reach | Unmeasured]) -> Unmeasured | None:
    """One reason for all addresses when none answers, with each reason and each advice once."""
    refusals = [reach for reach in addresses.values() if isinstance(reach, Unmeasured)]
    if len(refusals) < len(addresses):
        return None
    reasons = list(dict.fromkeys(refusal.reason for refusal in refusals))
    advice = "; ".join(dict.fromkeys(refusal.what_to_do for refusal in refusals))
    return Unmeasured("; ".join(reasons), refusals[0].trouble or Trouble.NO_ANSWER, _subject(alias), advice)


def _because_of_a_broker(
    found: Value | Unmeasured, brokers: Mapping[Broker, Reach | Unmeasured] | Unmeasured
) -> Value | Unmeasured:
    """A cluster that was reached and does not answer a request: a broker that cannot be reached is why."""
    if not isinstance(found, Unmeasured) or isinstance(brokers, Unmeasured):
        return found
    missing = (reach for reach in brokers.values() if isinstance(reach, Unmeasured))
    return next(missing, found) if found.trouble is Trouble.NO_ANSWER else found


def _subject(alias: str) -> str:
    return f"cluster {alias}"


# Findings --------------------------------------------------------------------------------------


def cluster_findings(
    seen: ClusterMeasurements, recorded_ids: Mapping[str, str] | Unmeasured, *, is_target: bool, now_ms: int
) -> Iterator[CheckResult]:
    """All that is said of a cluster, whatever flows do with it."""
    subject = _subject(seen.alias)
    yield from _addresses(seen)
    if idle := seen.probe.properties_without_effect:
        advice = "remove the lines: the mirror's connections are its own"
        yield CheckResult(
            subject, Check.CLIENT_PROPERTIES, Verdict.WARNING, f"without effect: {', '.join(idle)}", advice
        )
    recorded = recorded_ids if isinstance(recorded_ids, Unmeasured) else recorded_ids.get(seen.alias)
    yield identity(subject, seen.cluster_id, recorded)
    if isinstance(seen.cluster_id, Unmeasured) and seen.cluster_id.trouble is Trouble.NO_TOPIC_IDS:
        yield failed(subject, Check.BROKER_VERSION, seen.cluster_id)
    if seen.probe.uses_tls:
        yield from _own_certificate(subject, seen, now_ms)
    yield from _broker_findings(seen, is_target=is_target, now_ms=now_ms)
    if is_target:
        yield from producer_state(seen.alias, seen.broker_settings())


def _addresses(seen: ClusterMeasurements) -> Iterator[CheckResult]:
    subject, check = _subject(seen.alias), Check.BOOTSTRAP_ADDRESS
    if seen.unreachable is not None:
        yield failed(subject, check, seen.unreachable)
        return
    for address, reach in seen.addresses.items():
        found = reached(subject, check, address, reach)
        is_dead = isinstance(reach, Unmeasured) and reach.trouble in _DEAD
        if is_dead and not isinstance(seen.brokers, Unmeasured):
            others = ",".join(one.address for one, how in seen.brokers.items() if isinstance(how, Reach))
            advice = f"change bootstrap_servers of [clusters.{seen.alias}]: brokers are reached at {others}"
            found = replace(found, verdict=Verdict.WARNING, advice=advice)
        yield found


def _own_certificate(subject: str, seen: ClusterMeasurements, now_ms: int) -> Iterator[CheckResult]:
    validity = measure(seen.probe.client_certificate, subject)
    if isinstance(validity, Unmeasured) and seen.unreachable is not None:
        validity = seen.unreachable
    if validity is not None:
        yield certificate(subject, Check.CLIENT_CERTIFICATE, validity, now_ms)


def _broker_findings(seen: ClusterMeasurements, *, is_target: bool, now_ms: int) -> Iterator[CheckResult]:
    if isinstance(seen.brokers, Unmeasured):
        yield from _unknown_brokers(seen, seen.brokers, now_ms)
        return
    for broker, reach in seen.brokers.items():
        subject = f"broker {seen.alias}/{broker.node_id}"
        yield reached(subject, Check.ADVERTISED_BROKER, broker.address, reach)
        if seen.probe.uses_tls:
            yield _certificate(seen, subject, broker.address, now_ms, reach)
        yield from versions(subject, reach, is_target=is_target)


def _unknown_brokers(seen: ClusterMeasurements, why: Unmeasured, now_ms: int) -> Iterator[CheckResult]:
    """A certificate is checked all the same: an expired one may be why nobody can log in."""
    subject = _subject(seen.alias)
    yield unknown(subject, Check.ADVERTISED_BROKER, why)
    if seen.probe.uses_tls:
        for address in seen.addresses:
            yield _certificate(seen, f"{subject} at {address}", address, now_ms, why)
    yield unknown(subject, Check.BROKER_VERSION, why)


def _certificate(
    seen: ClusterMeasurements, subject: str, address: str, now_ms: int, reach: Reach | Unmeasured
) -> CheckResult:
    """What keeps the broker from being reached keeps its certificate from being seen, or is that certificate."""
    validity = measure(lambda: seen.probe.certificate(address), subject)
    if isinstance(reach, Unmeasured) and isinstance(validity, Unmeasured):
        validity = reach
    found = certificate(subject, Check.TLS_CERTIFICATE, validity, now_ms)
    if isinstance(reach, Unmeasured) and reach.trouble is Trouble.EXPIRED and found.verdict is Verdict.FAILED:
        return replace(found, because=reach)
    return found


# The probe -------------------------------------------------------------------------------------


def probe_findings(
    seen: ClusterMeasurements, target: TargetProbe | None, *, is_source: bool, is_target: bool
) -> Iterator[CheckResult]:
    """What only writing tells, in topics of its own; `target` None: not asked for."""
    subject = f"cluster {seen.alias}"
    if not is_target:
        if is_source:  # only a write tells a broker's time, and a source is never written to
            measured = "cannot be measured without writing to the source"
            yield CheckResult(subject, Check.BROKER_CLOCK, Verdict.SKIPPED, measured)
        return
    if target is None:
        for check in (Check.COMPARE_AND_APPEND, Check.BROKER_CLOCK):
            yield CheckResult(subject, check, Verdict.SKIPPED, NOT_ASKED, "examine with --probe")
        return
    yield compare_and_append(subject, seen.ask(lambda: target.appends(SENDS)))
    yield from target_clocks(seen.alias, seen.ask(lambda: target.clocks(len(seen.node_ids))))
