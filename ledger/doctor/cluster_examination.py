"""One cluster examined: first whether it answers at all, then, only if it does, everything else."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from ledger.doctor.check_results import CheckResult, Unmeasured, failed, measure, unknown
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.measurements import (
    AppendObservation,
    Broker,
    ClockObservation,
    ClusterProbe,
    Operation,
    Reach,
    Settings,
    TargetProbe,
)
from ledger.doctor.verdicts import connectivity, probing
from ledger.doctor.verdicts.permissions import Granting
from ledger.errors import Trouble
from ledger.ports.clusters import TopicDescription

_AT_ONCE = 8
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ClusterLook:
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
    def granting(self) -> Granting:
        return Granting(self.probe.servers, self.probe.principal)

    @property
    def node_ids(self) -> Sequence[int]:
        return () if isinstance(self.brokers, Unmeasured) else [broker.node_id for broker in self.brokers]

    @property
    def broker_count(self) -> int | Unmeasured:
        return self.brokers if isinstance(self.brokers, Unmeasured) else len(self.brokers)

    def is_one_with(self, other: "ClusterLook") -> bool:
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


def look_at(probe: ClusterProbe) -> ClusterLook:
    """Reach the bootstrap addresses, then every broker that the cluster advertises."""
    addresses = _reach_all(probe, probe.addresses())
    unreachable = _unreachable(probe.alias, addresses)
    if unreachable is not None:
        return ClusterLook(probe, addresses, unreachable, unreachable, unreachable, unreachable)
    brokers = _reached_brokers(probe)
    cluster_id = _because_of_a_broker(measure(probe.cluster_id, _subject(probe.alias)), brokers)
    topics = _because_of_a_broker(measure(probe.topics, _subject(probe.alias)), brokers)
    return ClusterLook(probe, addresses, None, brokers, cluster_id, topics)


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
    look: ClusterLook, recorded_ids: Mapping[str, str] | Unmeasured, *, is_target: bool, now_ms: int
) -> Iterator[CheckResult]:
    """All that is said of a cluster, whatever flows do with it."""
    subject = _subject(look.alias)
    yield from _addresses(look)
    recorded = recorded_ids if isinstance(recorded_ids, Unmeasured) else recorded_ids.get(look.alias)
    yield connectivity.identity(subject, look.cluster_id, recorded)
    if look.probe.uses_tls:
        yield from _own_certificate(subject, look, now_ms)
    yield from _broker_findings(look, is_target=is_target, now_ms=now_ms)
    if is_target:
        yield from probing.producer_state(look.alias, look.broker_settings())


def _addresses(look: ClusterLook) -> Iterator[CheckResult]:
    subject, check = _subject(look.alias), Check.BOOTSTRAP_ADDRESS
    if look.unreachable is not None:
        yield failed(subject, check, look.unreachable)
        return
    for address, reach in look.addresses.items():
        yield connectivity.reached(subject, check, address, reach)


def _own_certificate(subject: str, look: ClusterLook, now_ms: int) -> Iterator[CheckResult]:
    validity = measure(look.probe.client_certificate, subject)
    if isinstance(validity, Unmeasured) and look.unreachable is not None:
        validity = look.unreachable
    if validity is not None:
        yield connectivity.certificate(subject, Check.CLIENT_CERTIFICATE, validity, now_ms)


def _broker_findings(look: ClusterLook, *, is_target: bool, now_ms: int) -> Iterator[CheckResult]:
    if isinstance(look.brokers, Unmeasured):
        yield from _unknown_brokers(look, look.brokers, now_ms)
        return
    for broker, reach in look.brokers.items():
        subject = f"broker {look.alias}/{broker.node_id}"
        yield connectivity.reached(subject, Check.ADVERTISED_BROKER, broker.address, reach)
        if look.probe.uses_tls:
            yield _certificate(look, subject, broker.address, now_ms, reach)
        yield from connectivity.versions(subject, reach, is_target=is_target)


def _unknown_brokers(look: ClusterLook, why: Unmeasured, now_ms: int) -> Iterator[CheckResult]:
    """A certificate is checked all the same: an expired one may be why nobody can log in."""
    subject = _subject(look.alias)
    yield unknown(subject, Check.ADVERTISED_BROKER, why)
    if look.probe.uses_tls:
        for address in look.addresses:
            yield _certificate(look, f"{subject} at {address}", address, now_ms, why)
    yield unknown(subject, Check.BROKER_VERSION, why)


def _certificate(
    look: ClusterLook, subject: str, address: str, now_ms: int, reach: Reach | Unmeasured
) -> CheckResult:
    """What keeps the broker from being reached keeps its certificate from being seen, or is that certificate."""
    validity = measure(lambda: look.probe.certificate(address), subject)
    if isinstance(reach, Unmeasured) and isinstance(validity, Unmeasured):
        validity = reach
    found = connectivity.certificate(subject, Check.TLS_CERTIFICATE, validity, now_ms)
    if isinstance(reach, Unmeasured) and reach.trouble is Trouble.EXPIRED and found.verdict is Verdict.FAILED:
        return replace(found, because=reach)
    return found


# The probe -------------------------------------------------------------------------------------


def probe_findings(
    look: ClusterLook, target: TargetProbe | None, *, is_source: bool, is_target: bool
) -> Iterator[CheckResult]:
    """What only writing tells, in topics of its own; `target` None: not asked for."""
    subject = f"cluster {look.alias}"
    if not is_target:
        if is_source:
            yield probing.source_clock(subject)
        return
    if target is None:
        yield probing.skipped_probe(subject)
        yield from probing.target_clocks(look.alias, None)
        return
    yield probing.compare_and_append(subject, look.ask(lambda: _appended(target)))
    yield from probing.target_clocks(look.alias, look.ask(lambda: _clocks(target, look)))


def _appended(target: TargetProbe) -> AppendObservation:
    with target.compare_and_append() as topic:
        return topic.appends(probing.SENDS)


def _clocks(target: TargetProbe, look: ClusterLook) -> Sequence[ClockObservation]:
    with target.clock(max(len(look.node_ids), 1)) as topic:
        return topic.clocks()
