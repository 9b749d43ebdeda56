"""One cluster looked at: first whether it answers at all, then, only if it does, everything else."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ledger.operations.doctor import connectivity, probing
from ledger.operations.doctor.checks import Check
from ledger.operations.doctor.findings import Finding, Unmeasured, measure, unknown
from ledger.operations.doctor.measurements import (
    AppendObservation,
    Broker,
    ClockObservation,
    ClusterProbe,
    Reach,
    Settings,
    TargetProbe,
)
from ledger.ports import TopicDescription

_AT_ONCE = 8
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """What a cluster answered. `unreachable` is set when no address did, and nothing more was asked then."""

    probe: ClusterProbe
    addresses: Mapping[str, Reach | Unmeasured]
    unreachable: Unmeasured | None
    brokers: Mapping[Broker, Reach | Unmeasured] | Unmeasured
    topics: Mapping[str, TopicDescription] | Unmeasured

    @property
    def alias(self) -> str:
        return self.probe.alias

    @property
    def node_ids(self) -> Sequence[int]:
        return () if isinstance(self.brokers, Unmeasured) else [broker.node_id for broker in self.brokers]

    @property
    def broker_count(self) -> int | Unmeasured:
        return self.brokers if isinstance(self.brokers, Unmeasured) else len(self.brokers)

    def ask(self, measurement: Callable[[], Value]) -> Value | Unmeasured:
        """Measure, unless it is known that nobody answers."""
        return measure(measurement) if self.unreachable is None else self.unreachable

    def broker_settings(self) -> Mapping[int, Settings] | Unmeasured:
        return self.ask(lambda: self.probe.broker_settings(self.node_ids))


def look_at(probe: ClusterProbe) -> ClusterLook:
    """Reach the bootstrap addresses, then every broker that the cluster advertises."""
    addresses = _reach_all(probe, probe.addresses())
    unreachable = _unreachable(probe.alias, addresses)
    if unreachable is not None:
        return ClusterLook(probe, addresses, unreachable, unreachable, unreachable)
    return ClusterLook(probe, addresses, None, _reached_brokers(probe), measure(probe.topics))


def _reached_brokers(probe: ClusterProbe) -> Mapping[Broker, Reach | Unmeasured] | Unmeasured:
    advertised = measure(probe.brokers)
    if isinstance(advertised, Unmeasured):
        return advertised
    reached = _reach_all(probe, [broker.address for broker in advertised])
    return {broker: reached[broker.address] for broker in advertised}


def _reach_all(probe: ClusterProbe, addresses: Sequence[str]) -> dict[str, Reach | Unmeasured]:
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        found = pool.map(lambda address: measure(lambda: probe.reach(address)), addresses)
        return dict(zip(addresses, found, strict=True))


def _unreachable(alias: str, addresses: Mapping[str, Reach | Unmeasured]) -> Unmeasured | None:
    if any(isinstance(reach, Reach) for reach in addresses.values()):
        return None
    return Unmeasured(f"cluster {alias} does not answer at {', '.join(addresses)}")


# Findings --------------------------------------------------------------------------------------


def cluster_findings(
    look: ClusterLook, recorded_ids: Mapping[str, str] | Unmeasured, *, is_target: bool, now_ms: int
) -> Iterator[Finding]:
    """All that is said of a cluster, whatever flows do with it."""
    subject = f"cluster {look.alias}"
    for address, reach in look.addresses.items():
        yield connectivity.reached(subject, Check.BOOTSTRAP_ADDRESS, address, reach)
    recorded = recorded_ids if isinstance(recorded_ids, Unmeasured) else recorded_ids.get(look.alias)
    yield connectivity.identity(subject, look.ask(look.probe.cluster_id), recorded)
    if look.probe.uses_tls:
        yield from _own_certificate(subject, look.probe, now_ms)
    yield from _broker_findings(look, is_target=is_target, now_ms=now_ms)
    if is_target:
        yield from probing.producer_state(look.alias, look.broker_settings())


def _own_certificate(subject: str, probe: ClusterProbe, now_ms: int) -> Iterator[Finding]:
    validity = measure(probe.client_certificate)
    if validity is not None:
        yield connectivity.certificate(subject, Check.CLIENT_CERTIFICATE, validity, now_ms)


def _broker_findings(look: ClusterLook, *, is_target: bool, now_ms: int) -> Iterator[Finding]:
    if isinstance(look.brokers, Unmeasured):
        yield from _unknown_brokers(look, look.brokers, now_ms)
        return
    for broker, reach in look.brokers.items():
        subject = f"broker {look.alias}/{broker.node_id}"
        yield connectivity.reached(subject, Check.ADVERTISED_BROKER, broker.address, reach)
        if look.probe.uses_tls:
            yield _certificate(look.probe, subject, broker.address, now_ms)
        yield from connectivity.versions(subject, reach, is_target=is_target)


def _unknown_brokers(look: ClusterLook, why: Unmeasured, now_ms: int) -> Iterator[Finding]:
    """A certificate is looked at all the same: an expired one may be why nobody can log in."""
    subject = f"cluster {look.alias}"
    yield unknown(subject, Check.ADVERTISED_BROKER, why)
    if look.probe.uses_tls:
        for address in look.addresses:
            yield _certificate(look.probe, f"{subject} at {address}", address, now_ms)
    yield unknown(subject, Check.BROKER_VERSION, why)


def _certificate(probe: ClusterProbe, subject: str, address: str, now_ms: int) -> Finding:
    validity = measure(lambda: probe.certificate(address))
    return connectivity.certificate(subject, Check.TLS_CERTIFICATE, validity, now_ms)


# The probe -------------------------------------------------------------------------------------


def probe_findings(
    look: ClusterLook, target: TargetProbe | None, *, is_source: bool, is_target: bool
) -> Iterator[Finding]:
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
