"""The mirror is shut out of what was promoted: it has stopped first, then it is denied; what proves it is recorded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import pytest

from ledger.adopt.key_resync import preview
from ledger.adopt.reading import BothSides
from ledger.changeover.pairs import Pair
from ledger.changeover.shut_out import (
    LetInResult,
    ShutOut,
    ShutOutResult,
    let_mirror_in,
    shut_mirror_out,
)
from ledger.config.values import FlowConfig
from ledger.errors import MirrorLedgerError, PreconditionError
from ledger.facts.acls import denial
from ledger.facts.direction import Demoted, DirectionChange, Promoted
from ledger.facts.fences import MirrorShutOut
from ledger.facts.operations import DriverStarting, PartitionStopped, Why
from ledger.facts.permissions import Permission
from ledger.facts.roles import ProcessMark, writer_of
from ledger.facts.state import WriterClaim
from ledger.facts.syncs import PartitionPair, TopicPartition
from ledger.facts.tables import Row
from ledger.kafka.cluster import live_cluster
from ledger.kafka.copying import Network
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

# -- A promoted cluster in memory ------------------------------------------------------------------

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
        of = replace(
            self.of(pair),
            flows=[flow],
            others=others,
            principal=principal,
            with_markers=with_markers,
            limit_s=20.0,
        )
        return shut_mirror_out(of, Why(WHY))

    def of(self, pair: Pair) -> ShutOut:
        return ShutOut(
            pair=pair,
            cluster=self.west,
            mirror=self.west,
            state=self.state,
            operations=self._operations(),
            fact_log=self.facts,
            processes=FakeProcesses(),
            clock=self.clock,
            sleep=self._sleep,
            progress=self.said.append,
            copies=lambda flow, topic: topic in flow.topics,
        )

    def let_in(self, topics: Sequence[str] | None = None, former: str = "east") -> LetInResult:
        pair = Pair("west", former, None if topics is None else tuple(topics))
        return let_mirror_in(self.of(pair), Why(WHY))

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


# -- Shutting the mirror out -----------------------------------------------------------------------

DENY = denial("orders", MIRROR)
_LONG_S = 1_000.0


@pytest.fixture
def site() -> Promotion:
    return Promotion()


def stopped(site: Promotion) -> None:
    site.promote()
    site.stop(0)
    site.stop(1)


def fences(
    site: Promotion, *, with_markers: bool = False, principal: str | None = MIRROR
) -> list[tuple[int, tuple[str, ...], bool]]:
    done = site.shut_out(with_markers=with_markers, principal=principal).recorded
    assert done.proof is not None
    return [(proof.partition, proof.fences, proof.is_proven) for proof in done.proof]


# It has stopped --------------------------------------------------------------------------------


def test_it_is_denied_when_its_driver_has_stopped_and_not_before(site: Promotion) -> None:
    site.promote()
    denied: list[bool] = []

    def stops(partition: int) -> Callable[[], None]:
        def stop() -> None:
            denied.append(DENY in site.west.acls)
            site.stop(partition)

        return stop

    site.while_waiting = [stops(0), stops(1)]
    done = site.shut_out()
    assert denied == [False, False]
    assert site.west.acls == {DENY}
    assert (done.unproven, done.recorded.flows, done.recorded.rules) == ((), {"f": 1}, (DENY,))
    assert "2 proven, 0 unproven" in done.words
    assert site.said == [
        "waiting until the mirror has stopped: flow f (epoch 1, process 7 on host host-b) still has orders "
        "partition 0, 1, until its round ends or mirror-ledger stop f",
        "waiting until the mirror has stopped: flow f (epoch 1, process 7 on host host-b) still has orders "
        "partition 1, until its round ends or mirror-ledger stop f",
        "denied WRITE to User:mirror on orders",
    ]


def test_what_is_about_to_be_done_is_recorded_before_it_under_one_operation(site: Promotion) -> None:
    stopped(site)
    site.west.on_rules = lambda: known.append([change.content()["proof"] for change in changes()])
    known: list[list[object]] = []

    def changes() -> list[MirrorShutOut]:
        return [change for change in site.state.shut_outs().changes if isinstance(change, MirrorShutOut)]

    done = site.shut_out()
    assert known == [[None]]
    assert changes()[-1] == done.recorded
    rows = site.ledger.at(site.ledger.latest()).relation("operations").to_pylist()
    ids = [row["operation_id"] for row in rows if row["kind"] == "mirror_shut_out"]
    assert ids == [done.operation_id] * 2


def test_a_driver_that_does_not_stop_is_named_and_nothing_is_denied(site: Promotion) -> None:
    site.promote()
    site.stop(0)
    with pytest.raises(PreconditionError) as refused:
        site.shut_out()
    assert (
        "has not stopped within 20 s: flow f (epoch 1, process 7 on host host-b) still has orders partition 1"
        in (str(refused.value))
    )
    assert "nothing was denied" in str(refused.value)
    assert (site.west.acls, site.state.shut_outs().changes) == (set(), [])


def test_that_it_obeyed_an_earlier_promotion_proves_nothing(site: Promotion) -> None:
    stopped(site)
    site.demote()
    site.promote()
    with pytest.raises(PreconditionError, match="still has orders partition 0, 1"):
        site.shut_out()


def test_any_promotion_that_holds_will_do(site: Promotion) -> None:
    stopped(site)
    site.promote()
    assert fences(site) == [(0, ("deny",), True), (1, ("deny",), True)]


def test_what_is_not_promoted_any_more_is_left_alone(site: Promotion) -> None:
    site.promote()
    site.while_waiting = [site.demote]
    with pytest.raises(PreconditionError, match="not all of orders of west over east is promoted now"):
        site.shut_out()
    assert site.west.acls == set()


def test_of_a_pair_only_what_is_promoted_is_denied(site: Promotion) -> None:
    stopped(site)
    assert site.shut_out(Pair("west", "east", None)).recorded.topics == ("orders",)


def test_a_topic_that_is_not_there_is_denied_by_its_name(site: Promotion) -> None:
    """A mirror that does not know of the promotion would create it."""
    site.change(Promoted, "later")
    done = site.shut_out(Pair("west", "east", ("later",)))
    assert (done.recorded.topics, done.recorded.proof) == (("later",), ())
    assert site.west.acls == {replace(DENY, resource_name="later")}


def test_a_dead_driver_that_had_stopped_everything_keeps_its_epoch(site: Promotion) -> None:
    stopped(site)
    site.clock.now_s += _LONG_S
    assert site.shut_out().recorded.flows == {"f": 1}


def test_a_partition_that_had_stopped_for_another_reason_is_watched_for_two_rounds(site: Promotion) -> None:
    """A request that was granted before the driver read of the promotion would have ended that stop."""
    site.promote()
    site.stop(0)
    site.stop(1, "foreign_write")
    began = site.clock.now_s
    done = site.shut_out().recorded
    assert site.clock.now_s - began >= 2 * FLOW.round_seconds
    assert done.proof is not None
    assert [proof.stopped for proof in done.proof] == [
        "its driver stopped it for the promotion",
        "it had stopped (foreign_write)",
    ]


def test_where_no_driver_ever_began_nothing_has_to_stop(site: Promotion) -> None:
    site.west.add_partitions("orders", total=3)
    stopped(site)
    done = site.shut_out().recorded
    assert done.proof is not None
    assert done.proof[2].stopped == "no driver ever began there"


def test_a_driver_that_ended_has_stopped(site: Promotion) -> None:
    site.promote()
    site.driver.release()
    done = site.shut_out().recorded
    assert done.proof is not None
    assert done.proof[0].stopped == "its driver ended: epoch 1 was released"


def test_a_dead_driver_is_shut_out_of_the_ledger(site: Promotion) -> None:
    site.promote()
    site.clock.now_s += _LONG_S
    before = site.state.identities().producers(site.west.kafka_id)
    done = site.shut_out().recorded
    claim = site.state.last_claim(writer_of("f"))
    assert claim is not None
    assert (claim.epoch, claim.released, claim.host) == (2, True, str(DRIVER))
    assert site.state.identities().producers(site.west.kafka_id) == before
    assert done.flows == {"f": 2}
    assert done.proof is not None
    assert "its driver is dead (holder_silent): epoch 2 was claimed" in done.proof[0].stopped


def test_a_driver_that_claims_meanwhile_is_waited_for_as_well(site: Promotion) -> None:
    """It may have begun from an older state of topics; what it stops counts, whatever its epoch."""
    site.promote()
    site.driver.release()

    def begins() -> None:
        site.west.on_rules = lambda: None
        site.begin()
        site.while_waiting = [lambda: site.stop(0), lambda: site.stop(1)]

    site.west.on_rules = begins
    done = site.shut_out().recorded
    assert done.flows == {"f": 2}
    assert "a driver claimed a flow meanwhile: waiting for it as well" in site.said
    assert done.rules == (DENY,)


# It cannot begin again -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("principal", "prepare", "reason"),
    [
        (None, lambda _site: None, "clusters.west has no mirror_principal"),
        (
            MIRROR,
            lambda site: setattr(site.west, "exempts_mirror", True),
            "it is a super user, or logs in as",
        ),
    ],
)
def test_where_no_rule_holds_it_out_it_is_not_proven(
    site: Promotion, principal: str | None, prepare: Callable[[Promotion], None], reason: str
) -> None:
    stopped(site)
    prepare(site)
    done = site.shut_out(principal=principal)
    assert [proof.fences for proof in done.unproven] == [(), ()]
    assert reason in str(done.unproven[0].reason)
    assert "no marker was asked for" in str(done.unproven[0].reason)
    assert fences(site, with_markers=True, principal=principal)[0] == (0, ("marker",), True)


def test_another_flow_that_writes_there_is_a_blocker(site: Promotion) -> None:
    stopped(site)
    other = FLOW.model_copy(update={"name": "north-to-west", "source": "north"})
    with pytest.raises(
        PreconditionError, match="flow north-to-west writes to orders of west as User:mirror as well"
    ):
        site.shut_out(others=[other])
    assert (site.west.acls, site.state.shut_outs().changes) == (set(), [])
    assert site.shut_out(others=[other.model_copy(update={"topics": ("users",)})]).unproven == ()


def test_a_flow_whose_opposite_holds_writes_nothing_there_and_is_no_blocker(site: Promotion) -> None:
    stopped(site)
    held = FLOW.model_copy(update={"name": "north-to-west", "source": "north", "opposite": "west-to-north"})
    with pytest.raises(PreconditionError, match="flow north-to-west writes to orders of west"):
        site.shut_out(others=[held])
    site.asked.record(DriverStarting("mirrors:1:1:"), flow="west-to-north", reason=None)
    assert site.shut_out(others=[held]).unproven == ()


def test_markers_shut_out_the_flows_producer_id_once(site: Promotion) -> None:
    stopped(site)
    [producer] = site.state.identities().producers(site.west.kafka_id).values()
    assert fences(site, with_markers=True) == [(0, ("deny", "marker"), True), (1, ("deny", "marker"), True)]
    fences(site, with_markers=True)
    assert [site.markers("orders", partition) for partition in (0, 1)] == [[(producer.current, 1)]] * 2
    assert site.markers("users", 0) == []


@pytest.mark.parametrize(("unable", "markers"), [(3, 1), (99, 0)])
def test_leaders_that_cannot_now_are_asked_again_for_a_while(
    site: Promotion, unable: int, markers: int
) -> None:
    stopped(site)
    site.west.unable = unable
    done = site.shut_out(principal=None, with_markers=True)
    assert len(site.markers("orders", 0)) == markers
    reasons = [proof.reason for proof in done.unproven]
    assert ["2 of 2 markers could not be written" in str(reason) for reason in reasons] == [True] * 2 * (
        1 - markers
    )


def test_the_next_claim_names_another_producer_id(site: Promotion) -> None:
    stopped(site)
    [first] = site.state.identities().producers(site.west.kafka_id).values()
    site.shut_out(with_markers=True)
    site.begin()
    [second] = site.state.identities().producers(site.west.kafka_id).values()
    assert second.current != first.current
    assert second.former == frozenset({first.current})
    again = claim_row(
        FLOW, source=live_cluster(site.east), target=site.west, state=site.state, host=str(DRIVER)
    )
    assert (again["producer_id"], again["former_producer_id"]) == (second.current, None)


def test_where_a_flow_never_had_an_id_there_is_nothing_to_mark(site: Promotion) -> None:
    site.promote()
    never = FLOW.model_copy(update={"name": "never"})
    done = site.shut_out(principal=None, with_markers=True, flow=never)
    assert done.recorded.flows == {"never": 0}
    assert "the ledger knows no producer id of the flow there" in str(done.unproven[0].reason)


def test_an_older_copy_may_have_any_id_that_the_flow_ever_had(site: Promotion) -> None:
    stopped(site)
    site.shut_out(with_markers=True)
    site.begin()
    site.driver.release()
    site.shut_out(with_markers=True)
    [producer] = site.state.identities().producers(site.west.kafka_id).values()
    [former] = producer.former
    assert site.markers("orders", 0) == [(former, 1), (producer.current, 1)]


def test_no_tombstones_are_written_to_what_is_promoted(site: Promotion) -> None:
    [source, target] = [cluster.topics()["orders"] for cluster in (site.east, site.west)]
    pair = PartitionPair(
        TopicPartition("orders", source.topic_id, 0), TopicPartition("orders", target.topic_id, 0)
    )
    ports = BothSides(site.east, site.west, site.state, cast(Network, None), site.clock)
    site.promote()
    [keys] = preview(FLOW, [pair], ports)
    assert "orders of west was promoted over east by anna" in str(keys.refused)


# Letting it in ---------------------------------------------------------------------------------


def test_exactly_its_own_rules_are_removed(site: Promotion) -> None:
    """Not one of the same words that somebody else had made, nor what was made for another topic."""
    theirs = replace(DENY, resource_name="users")
    site.west.acls |= {theirs, replace(DENY, entity="User:app")}
    stopped(site)
    others = set(site.west.acls)
    site.shut_out()
    assert site.let_in(["users"]).operation_id is None
    assert site.let_in(former="north").operation_id is None, "another pair is demoted"
    assert site.west.acls == {*others, DENY}
    let_in = site.let_in(["orders"])
    assert (let_in.rules, site.west.acls) == ((DENY,), others)
    assert site.let_in(["orders"]).operation_id is None


def test_a_rule_that_was_there_before_stays(site: Promotion) -> None:
    site.west.acls.add(DENY)
    stopped(site)
    assert fences(site)[0] == (0, ("deny",), True)
    assert site.let_in().operation_id is None
    assert site.west.acls == {DENY}


# Crashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("is_dead", [True, False])
def test_it_comes_to_the_same_end_after_a_crash_at_any_place(before: bool, is_dead: bool) -> None:
    whole = Promotion()
    assert (end_of(whole, is_dead=is_dead), len(whole.crashes.made) > 4) == (EXPECTED, True)
    for at in range(len(whole.crashes.made)):
        site = Promotion()
        site.crashes.at, site.crashes.before = at, before
        with pytest.raises(CrashError):
            end_of(site, is_dead=is_dead)
        again(site)
        assert outcome(site) == EXPECTED, whole.crashes.made[at]
        site.let_in()
        assert site.west.acls == set()


EXPECTED = ({DENY}, 1, 1, {DENY}, True)


def end_of(site: Promotion, *, is_dead: bool) -> object:
    if is_dead:
        site.promote()
        site.clock.now_s += _LONG_S
    else:
        stopped(site)
    site.shut_out(with_markers=True)
    return outcome(site)


def again(site: Promotion) -> None:
    site.crashes.at = None
    site.clock.now_s += _LONG_S
    site.shut_out(with_markers=True)


def outcome(site: Promotion) -> object:
    last = site.state.shut_outs().changes[-1]
    assert isinstance(last, MirrorShutOut)
    assert last.proof is not None
    own = site.state.shut_outs().rules(site.west.kafka_id, None)
    return (
        site.west.acls,
        *(len(site.markers("orders", partition)) for partition in (0, 1)),
        own,
        all(proof.is_proven for proof in last.proof),
    )


@pytest.mark.parametrize("before", [True, False])
def test_letting_in_comes_to_the_same_end_after_a_crash_at_any_place(before: bool) -> None:
    for at in range(2):
        site = Promotion()
        stopped(site)
        site.shut_out()
        site.west.crashes = site.facts.crashes = Crashes(at, before)
        with pytest.raises(CrashError):
            site.let_in()
        site.west.crashes.at = None
        site.let_in()
        assert (site.west.acls, site.state.shut_outs().rules(site.west.kafka_id, None)) == (
            set(),
            frozenset(),
        )
