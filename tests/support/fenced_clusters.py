"""A cluster in memory that is fenced: rules and settings as each of its brokers has them, logs, open transactions.

Each change of it, and each append to the ledger, is a step at which a test can have the process end.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ledger.changeover.measures import AskedFence, FenceParts
from ledger.errors import ClusterUnavailableError
from ledger.facts.acls import Authorization
from ledger.facts.fences import FenceHow, LeaderReading, QuietBounds
from ledger.facts.operations import OperationContent
from ledger.facts.permissions import Permission, topic_acl
from ledger.facts.syncs import TopicPartition
from ledger.kafka.batches import CONTROL, TRANSACTIONAL, BatchHeader
from ledger.kafka.cluster import CoordinatedTransaction, OpenTransaction, Place, Refusal, TopicDescription
from ledger.machine import HookCommand, HookResult
from ledger.store.session import OperatorOperations
from tests.support.fakes import FakeClock, FakeLedger

MIRROR = "User:mirror"


class EndedError(Exception):
    """The process ended here."""


def allowing(principal: str, topic: str = "orders", operation: str = "write") -> Permission:
    return topic_acl(topic, principal, operation)


def batch(offset: int, *, is_control: bool = False, producer_id: int = 7) -> BatchHeader:
    """A batch of one record."""
    attributes = CONTROL | TRANSACTIONAL if is_control else 0
    return BatchHeader(offset, 0, 0, 2, 0, attributes, 0, 0, 0, producer_id, 0, 0, 1)


@dataclass
class Steps:
    """Counts steps; the process ends before the step of a number, or behind it."""

    ends_before: int | None = None
    ends_after: int | None = None
    number: int = 0

    def made(self, step: Callable[[], None]) -> None:
        self.number += 1
        if self.number == self.ends_before:
            raise EndedError
        step()
        if self.number == self.ends_after:
            raise EndedError


@dataclass
class FencedCluster:
    """Implements `FenceReader` and `FenceControl`: topics `orders` (two partitions) and `users`."""

    alias: str = "east"
    steps: Steps = field(default_factory=Steps)
    acls: set[Permission] = field(default_factory=lambda: {allowing("User:a"), allowing("User:b", "users")})
    stale: dict[int, frozenset[Permission]] = field(default_factory=dict)
    """Brokers that have not got the last rules yet."""
    settings: dict[str, dict[str, str]] = field(default_factory=lambda: {"orders": {}, "users": {}})
    described: dict[str, TopicDescription] = field(
        default_factory=lambda: {
            "orders": TopicDescription("orders", "O", 2, 2, False),
            "users": TopicDescription("users", "U", 1, 2, False),
        }
    )
    logs: dict[Place, list[BatchHeader]] = field(
        default_factory=lambda: {("orders", 0): [batch(0), batch(1)], ("orders", 1): [], ("users", 0): []}
    )
    starts: dict[Place, int] = field(default_factory=dict)
    """Log starts behind which everything was deleted."""
    open_at: dict[Place, int] = field(default_factory=dict)
    """The last stable offset of partitions with an open transaction."""
    shown_up_to: dict[Place, int] = field(default_factory=dict)
    """High watermarks of partitions whose followers lack what their leader took."""
    moved: dict[Place, tuple[int, int | None]] = field(default_factory=dict)
    """Leader and leader epoch of partitions whose leader is another than at first."""
    in_sync: int = 2
    takes_still: set[Place] = field(default_factory=set)
    """Partitions whose leader has not got the setting yet, though it tells it."""
    may_write: bool = True
    keeps: bool = True
    smallest: dict[Place, int] = field(default_factory=dict)
    """Sizes of batches, where they are less than usual."""
    coordinated_in: list[CoordinatedTransaction] = field(default_factory=list)
    coordinator: CoordinatedTransaction | None = None
    last_timestamp_ms: int | None = None
    ended_by: list[str] = field(default_factory=list)
    """How transactions were ended."""
    has_authorizer: bool = True
    is_away: bool = False

    def write(self, topic: str, partition: int, *, is_control: bool = False, producer_id: int = 7) -> None:
        log = self.logs[topic, partition]
        log.append(batch(len(log), is_control=is_control, producer_id=producer_id))

    # -- reading ---------------------------------------------------------------------------------

    def cluster_id(self) -> str:
        if self.is_away:
            raise ClusterUnavailableError("cluster east could not be reached")
        return "E"

    def metadata_offset(self) -> int | None:
        return None

    def topics(self) -> dict[str, TopicDescription]:
        self.cluster_id()
        return dict(self.described)

    def readings(self, partitions: Sequence[Place]) -> dict[Place, LeaderReading]:
        self.cluster_id()
        return {place: self._reading(place) for place in partitions}

    def _reading(self, place: Place) -> LeaderReading:
        leader, epoch = self._led(place)
        log_end = len(self.logs[place])
        shown = self.shown_up_to.get(place, log_end)
        return LeaderReading(
            leader=leader,
            leader_epoch=epoch,
            log_start=self.starts.get(place, 0),
            last_stable=self.open_at.get(place, shown),
            high_watermark=shown,
            log_end=log_end,
            in_sync=self.in_sync,
        )

    def _led(self, place: Place) -> tuple[int, int | None]:
        return self.moved.get(place, (1 + place[1] % 2, 0))

    def smallest_batches(self, partitions: Sequence[Place]) -> dict[Place, int]:
        return {place: self.smallest.get(place, 90) for place in partitions if self.logs[place]}

    def batches_at(self, partition: TopicPartition, offset: int) -> Sequence[BatchHeader]:
        place = partition.topic, partition.partition
        return self.logs[place][offset:] if self.starts.get(place, 0) <= offset else []

    def open_transactions(self, partition: TopicPartition) -> Sequence[OpenTransaction]:
        start = self.open_at.get((partition.topic, partition.partition))
        if start is None:
            return []
        return [
            OpenTransaction(
                partition=partition,
                producer_id=9,
                producer_epoch=0,
                coordinator_epoch=0,
                start=start,
                last_timestamp_ms=self.last_timestamp_ms,
            )
        ]

    # -- changing --------------------------------------------------------------------------------

    def authorizations(self) -> Sequence[Authorization] | None:
        return (
            [Authorization(broker, frozenset(), False) for broker in (1, 2)] if self.has_authorizer else None
        )

    def topic_acls(self) -> frozenset[Permission]:
        return frozenset(self.acls)

    def leaders(self, topics: Sequence[str]) -> Mapping[Place, int]:
        assert topics
        return {place: self._led(place)[0] for place in self.logs if place[0] in topics}

    def acls_at(self, broker: int) -> frozenset[Permission]:
        return self.stale.get(broker, frozenset(self.acls))

    def settings_at(
        self, broker: int, topics: Sequence[str], names: Collection[str]
    ) -> Mapping[str, Mapping[str, str]]:
        assert broker in (1, 2)
        default = {"max.message.bytes": "1048588", "cleanup.policy": "delete", "min.insync.replicas": "1"}
        return {
            topic: {name: {**default, **self.settings[topic]}[name] for name in names} for topic in topics
        }

    def keeps_metadata(self) -> bool:
        return self.keeps

    def refusals(self, partitions: Sequence[Place]) -> Mapping[Place, tuple[int, Refusal]]:
        self.cluster_id()
        return {place: (self._led(place)[0], self._refusal(place)) for place in partitions}

    def _refusal(self, place: Place) -> Refusal:
        if not self.may_write:
            return Refusal.NOT_KNOWN
        is_shut = self.settings[place[0]].get("max.message.bytes") == "78" and place not in self.takes_still
        return Refusal.BY_SIZE if is_shut else Refusal.NOT_YET

    def configurations(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        return {topic: dict(self.settings[topic]) for topic in topics}

    def create_acls(self, acls: Sequence[Permission]) -> None:
        for acl in acls:
            self.steps.made(lambda acl=acl: self.acls.add(acl))  # type: ignore[misc]

    def delete_acls(self, acls: Sequence[Permission]) -> None:
        for acl in acls:
            self.steps.made(lambda acl=acl: self.acls.discard(acl))  # type: ignore[misc]

    def change_setting(self, name: str, values: Mapping[str, str | None]) -> None:
        """Controllers change topic by topic."""
        for topic, value in values.items():
            self.steps.made(lambda topic=topic, value=value: self._set(topic, name, value))  # type: ignore[misc]

    def _set(self, topic: str, name: str, value: str | None) -> None:
        kept = {key: was for key, was in self.settings[topic].items() if key != name}
        self.settings[topic] = kept if value is None else {**kept, name: value}

    def transactions_in(self, topics: Sequence[str]) -> Sequence[CoordinatedTransaction]:
        return [one for one in self.coordinated_in if any(topic in topics for topic, _ in one.places)]

    def coordinated(self, producer_id: int) -> CoordinatedTransaction | None:
        assert producer_id == 9
        return self.coordinator

    def fence_producer(self, transactional_id: str) -> None:
        self.ended_by.append(transactional_id)
        self.coordinated_in = [one for one in self.coordinated_in if one.transactional_id != transactional_id]
        for topic, partition in list(self.open_at):
            self._mark(topic, partition)

    def abort_hanging(self, transaction: OpenTransaction) -> None:
        self.ended_by.append("a marker")
        self._mark(transaction.partition.topic, transaction.partition.partition)

    def _mark(self, topic: str, partition: int) -> None:
        del self.open_at[topic, partition]
        self.write(topic, partition, is_control=True)


@dataclass
class FakeHooks:
    """Runs nothing, and says what it is to say."""

    results: list[HookResult] = field(default_factory=list)
    ran: list[HookCommand] = field(default_factory=list)

    def run(self, hook: HookCommand, waits: Callable[[str], None]) -> HookResult:
        waits(f"{hook.command[0]} runs")
        self.ran.append(hook)
        return self.results.pop(0)


class SteppedOperations(OperatorOperations):
    """Each append is a step."""

    def __init__(self, ledger: FakeLedger, steps: Steps) -> None:
        super().__init__(ledger, operator="anna")
        self._steps = steps

    def _append(self, rows: Sequence[Mapping[str, object]]) -> None:
        self._steps.made(lambda: OperatorOperations._append(self, rows))


@dataclass
class FenceSite:
    """What fences are tried with; `during_sleep` says what happens while somebody waits."""

    cluster: FencedCluster = field(default_factory=FencedCluster)
    clock: FakeClock = field(default_factory=FakeClock)
    hooks: FakeHooks = field(default_factory=FakeHooks)
    during_sleep: list[Callable[[], None]] = field(default_factory=list)
    pauses: dict[tuple[str, int], float] = field(
        default_factory=lambda: {("O", 0): 1.0, ("O", 1): 20.0, ("U", 0): 1.0}
    )
    asked_for_pauses: int = 0
    mirror_ids: Iterable[int] = ()
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = FakeLedger(self.clock)

    def parts(self) -> FenceParts:
        """As a process that starts now finds things."""
        return FenceParts(
            reader=self.cluster,
            control=self.cluster,
            operations=SteppedOperations(self.ledger, self.cluster.steps),
            hooks=self.hooks,
            clock=self.clock,
            sleep=self._sleep,
            say=self.said.append,
            mirror=MIRROR,
            identities=self.ledger.identities(),
            fences=self.ledger.fences(),
            pauses=self._pauses,
        )

    def _pauses(self) -> Mapping[tuple[str, int], float]:
        self.asked_for_pauses += 1
        return self.pauses

    def _sleep(self, seconds: float) -> None:
        self.clock.now_s += seconds
        if self.during_sleep:
            self.during_sleep.pop(0)()

    def record(self, content: OperationContent) -> None:
        OperatorOperations(self.ledger, operator="anna").record(content, flow=None, reason=None)


def asked(how: FenceHow = FenceHow.CLOSED, *topics: str, **more: object) -> AskedFence:
    """A fence of `orders` and `users` unless others are named."""
    values = {"quiet": QuietBounds(5.0, 30.0), **more}
    return AskedFence(cluster="east", topics=topics or ("orders", "users"), how=how, **values)  # type: ignore[arg-type]
