"""A promoted cluster in memory, with the driver of a flow into it, and what shuts its mirror out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ledger.changeover.pairs import Pair
from ledger.changeover.shut_out import (
    LetInResult,
    ShutOutPorts,
    ShutOutResult,
    ShutOutScope,
    let_mirror_in,
    shut_mirror_out,
)
from ledger.config.values import FlowConfig
from ledger.errors import MirrorLedgerError
from ledger.facts.direction import Demoted, DirectionChange, Promoted
from ledger.facts.operations import PartitionStopped, Why
from ledger.facts.permissions import Permission
from ledger.facts.roles import ProcessMark, writer_of
from ledger.facts.state import WriterClaim
from ledger.facts.syncs import TopicPartition
from ledger.facts.tables import Row
from ledger.kafka.cluster import live_cluster
from ledger.mirror.driver import claim_row
from ledger.store.session import FLOW_TABLES, ClaimedOperations, OperatorOperations, WriterSession
from ledger.topics.naming import NamingKind
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.fenced_cluster import MIRROR, FencedCluster
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeClock, FakeProcesses
from tests.support.ledger_rows import row
from tests.support.ledgers import numbered

FLOW = FlowConfig(
    name="f",
    source="east",
    target="west",
    topics=("orders", "users"),
    topic_naming=NamingKind.IDENTITY,
    round_seconds=1.0,
)
ORDERS = Pair("west", "east", ("orders",))
DRIVER = ProcessMark("host-b", 7, 7)
"""On another host, so that silence alone tells of its death."""
WHY = "a fire"
_STAMP = {"writer", "writer_epoch", "round", "recorded_at_ms"}


class CrashError(MirrorLedgerError):
    """The process of the operator ends here."""


@dataclass
class Crashes:
    """Lets the process end around one of the changes that it makes; `at` None: it never does."""

    at: int | None = None
    before: bool = True
    made: list[str] = field(default_factory=list)

    def around(self, name: str, change: Callable[[], object]) -> None:
        is_here = len(self.made) == self.at
        self.made.append(name)
        if is_here and self.before:
            raise CrashError(name)
        change()
        if is_here:
            raise CrashError(name)


class West(FencedCluster):
    """The promoted cluster; `on_rules` is called after rules were created. `unable`: so often leaders write nothing."""

    crashes: Crashes
    unable: int = 0
    on_rules: Callable[[], None]

    def create_acls(self, acls: Sequence[Permission]) -> None:
        self.crashes.around("rules", lambda: FencedCluster.create_acls(self, acls))
        self.on_rules()

    def delete_acls(self, acls: Sequence[Permission]) -> None:
        self.crashes.around("remove", lambda: FencedCluster.delete_acls(self, acls))

    def write_abort_markers(
        self, partitions: Sequence[TopicPartition], *, producer_id: int, producer_epoch: int
    ) -> None:
        if self.unable:
            self.unable -= 1
            return
        for at in partitions:
            self.crashes.around("marker", partial(self._write, at, producer_id, producer_epoch))

    def _write(self, at: TopicPartition, producer_id: int, epoch: int) -> None:
        super().write_abort_markers([at], producer_id=producer_id, producer_epoch=epoch)


class Facts(MemoryFactLog):
    """Appends of the operator."""

    crashes: Crashes

    def claim(self, writer: str, tables: Sequence[str], row: Row, *, after: int | None = None) -> WriterClaim:
        claims: list[WriterClaim] = []
        claim = super().claim
        self.crashes.around("claim", lambda: claims.append(claim(writer, tables, row, after=after)))
        return claims[0]

    def append(self, claim: WriterClaim, table: str, round_number: int, rows: Sequence[Row]) -> None:
        append = super().append
        self.crashes.around("append", lambda: append(claim, table, round_number, rows))

    def append_next(self, writer: str, table: str, rows: Sequence[Row]) -> int:
        append = super().append_next
        self.crashes.around("record", lambda: append(writer, table, rows))
        return 0


class Promotion:
    """`orders` of two partitions and `users` of one are at west; a driver of the flow has copied to all of them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.ledger = MemoryLedger()
        self.east = MemoryCluster("east", self.clock)
        self.west = West("west", self.clock)
        self.crashes = self.west.crashes = Crashes()
        self.west.on_rules = lambda: None
        self.state = MemoryLedgerState(self.ledger)
        self.facts = Facts(self.ledger, self.clock)
        self.facts.crashes = self.crashes
        self.asked = OperatorOperations(
            MemoryFactLog(self.ledger, self.clock), operator="anna", new_id=numbered()
        )
        self.said: list[str] = []
        self.while_waiting: list[Callable[[], None]] = []
        for topic, partitions in (("orders", 2), ("users", 1)):
            for cluster in (self.east, self.west):
                cluster.create_topic(topic, partitions=partitions, replication_factor=1, configuration={})
        self.driver = self.begin()
        self.copy("orders", 0)
        self.copy("orders", 1)
        self.copy("users", 0)

    # -- the driver ------------------------------------------------------------------------------

    def begin(self) -> WriterSession:
        """Another driver claims the flow."""
        claim = claim_row(
            FLOW, source=live_cluster(self.east), target=self.west, state=self.state, host=str(DRIVER)
        )
        log = MemoryFactLog(self.ledger, self.clock)
        self.driver = WriterSession.claimed(log, writer_of("f"), FLOW_TABLES, claim)
        return self.driver

    def copy(self, topic: str, partition: int) -> None:
        """It begins with a partition."""
        ids = (self.east.topics()[topic].topic_id, self.west.topics()[topic].topic_id)
        made = row(
            "offset_syncs",
            flow="f",
            source_topic=topic,
            source_topic_id=ids[0],
            source_partition=partition,
            target_topic=topic,
            target_topic_id=ids[1],
            target_partition=partition,
            kind="started",
        )
        self.driver.append("offset_syncs", [{k: v for k, v in made.items() if k not in _STAMP}])

    def stop(self, partition: int, cause: str = "promoted", topic: str = "orders") -> None:
        """It stops a partition, and says why as drivers do."""
        promotion = self.state.directions().promotion("east", "west", topic)
        operations = ClaimedOperations(operator="driver", new_id=numbered())
        operations.begin(self.driver)
        stopped = PartitionStopped(
            topic=topic,
            topic_id=self.east.topics()[topic].topic_id,
            partition=partition,
            cause=cause,
            message=f"it was promoted {promotion}: applications write there",
        )
        operations.record(stopped, flow="f", reason=cause)

    # -- operators -------------------------------------------------------------------------------

    def change(self, kind: type[DirectionChange], topic: str = "orders") -> None:
        change = kind(cluster="west", cluster_id="W", former="east", former_id="E", topics=(topic,))
        self.asked.record(change, flow=None, reason=WHY)

    def promote(self) -> None:
        self.change(Promoted)

    def demote(self) -> None:
        self.change(Demoted)

    def shut_out(
        self,
        pair: Pair = ORDERS,
        *,
        principal: str | None = MIRROR,
        with_markers: bool = False,
        others: Sequence[FlowConfig] = (),
        flow: FlowConfig = FLOW,
    ) -> ShutOutResult:
        scope = ShutOutScope(
            pair=pair,
            flows=[flow],
            others=others,
            copies=lambda flow, topic: topic in flow.topics,
            principal=principal,
            with_markers=with_markers,
            limit_s=20.0,
        )
        return shut_mirror_out(scope, self.ports(), Why(WHY))

    def ports(self) -> ShutOutPorts:
        return ShutOutPorts(
            cluster=self.west,
            mirror=self.west,
            state=self.state,
            operations=self._operations(),
            fact_log=self.facts,
            processes=FakeProcesses(),
            clock=self.clock,
            sleep=self._sleep,
            progress=self.said.append,
        )

    def let_in(self, topics: Sequence[str] | None = None, former: str = "east") -> LetInResult:
        pair = Pair("west", former, None if topics is None else tuple(topics))
        return let_mirror_in(pair, self.ports(), Why(WHY))

    def _operations(self) -> OperatorOperations:
        return OperatorOperations(self.facts, operator="anna")

    def _sleep(self, seconds: float) -> None:
        self.clock.now_s += seconds
        if self.while_waiting:
            self.while_waiting.pop(0)()

    # -- what came of it -------------------------------------------------------------------------

    def markers(self, topic: str, partition: int) -> list[tuple[int, int]]:
        """Producer id and epoch of each marker in a log."""
        headers = self.west.log(topic, partition).headers()
        return [(one.producer_id, one.producer_epoch) for one in headers if one.is_control]
