"""What a simulated life leaves behind, looked at as a whole: every partition is checked, every row counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ledger.config.values import TargetMode
from ledger.facts.operations import TailCopiedAgain
from ledger.facts.requests import Receipt, RequestKind
from ledger.facts.syncs import SyncCause, SyncKind
from ledger.mirror.assignment import StopCause
from tests.simulation.accounts import Account, Place, Row, accounts, walk
from tests.simulation.checks import Copied, check, check_l3_once
from tests.simulation.chronicles import Chronicles
from tests.simulation.drivers import FlowDrivers
from tests.simulation.faults import LOSING_ENDS, Fault, Promise
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.ledger.tables import MemoryLedger
from tests.simulation.operators import Operator
from tests.simulation.settlers import SETTLER
from tests.simulation.stops import ALLOWED, LOST_SOURCE, MORE_WHEN_TOLD
from tests.simulation.told_and_done import check_receipts_are_true, check_stops_exist
from tests.simulation.workload import TopicKind

_EXPLAINING = (SyncCause.RESYNC, SyncCause.ACCEPTED, SyncCause.SKIPPED, SyncCause.COMPACTED)
"""Causes of rows behind which own records may have no source."""


@dataclass(frozen=True)
class Aftermath:
    """A life that is over; `operators` are those of `flows`, in their order."""

    promise: Promise
    faults: frozenset[Fault]
    clusters: Mapping[str, MemoryCluster]
    flows: Sequence[FlowDrivers]
    operators: Sequence[Operator]
    ledger: MemoryLedger

    def check(self) -> None:
        """Everything that must hold; `AssertionError` with the rows of the first partition for which it does not."""
        self._check_stops()
        self._check_operations()
        self._check_unpaired()
        self._check_l3()
        for key in self._accounts:
            self._check_partition(*key)
        self._check_all_are_mirrored()

    def tally(self) -> Counter[str]:
        """How often what was recorded: kinds and causes of rows and gaps, records and batches, stops, receipts."""
        tally: Counter[str] = Counter()
        for operation in self.ledger.rows("operations"):
            _count_operation(operation, tally)
        for account in self._accounts.values():
            for sync in account.rows:
                _count_sync(sync, tally)
        return tally

    @cached_property
    def _accounts(self) -> dict[tuple[str, Place], Account]:
        return accounts(self.ledger.rows("offset_syncs"))

    @cached_property
    def _chronicles(self) -> dict[str, Chronicles]:
        return {alias: Chronicles(cluster) for alias, cluster in self.clusters.items()}

    def _check_stops(self) -> None:
        for row in self.ledger.rows("operations"):
            if row["kind"] == "partition_stopped":
                cause = StopCause(row["reason"])
                is_told = self.promise is Promise.TOLD and cause in MORE_WHEN_TOLD
                assert ALLOWED[cause] & self.faults or is_told, row

    def _check_operations(self) -> None:
        operations, syncs = self.ledger.rows("operations"), self.ledger.rows("offset_syncs")
        for flow in self.flows:
            living = frozenset(topic.topic_id for topic in flow.source.topic_by_name.values())
            check_stops_exist(flow.flow, syncs, operations)
            check_receipts_are_true(flow.flow, operations, living)

    def _check_unpaired(self) -> None:
        """Own records lose their source by what happened to it, or to where the flow stood, and by nothing else."""
        claims = [row for row in self.ledger.rows("writers") if row["host"] == SETTLER]
        settling = {(row["writer"], row["writer_epoch"]) for row in claims}
        for account in self._accounts.values():
            is_explained = bool(LOST_SOURCE & self.faults)
            is_told = self.promise is Promise.TOLD
            for row in account.rows:
                if (row["writer"], row["writer_epoch"]) in settling:
                    continue
                if (row["kind"], row["cause"]) == (SyncKind.UNPAIRED, SyncCause.LOST_SOURCE):
                    assert is_explained, row
                if (row["kind"], row["cause"]) == (SyncKind.UNPAIRED, SyncCause.COMPACTED):
                    assert ALLOWED[StopCause.TAIL_MISMATCH] & self.faults or is_told or is_explained, row
                is_explained |= row["cause"] in _EXPLAINING

    def _check_l3(self) -> None:
        for cluster in self.clusters:
            flows = {f.flow.name for f in self.flows if f.flow.target == cluster}
            claims = (account for (flow, _), account in self._accounts.items() if flow in flows)
            check_l3_once(claims, self._chronicles[cluster])

    def _check_partition(self, flow: str, place: Place) -> None:
        account = self._accounts[flow, place]
        copied = self._copied(next(f for f in self.flows if f.flow.name == flow), place, account)
        try:
            check(copied)
        except AssertionError as error:
            error.add_note("\n".join([f"{flow} {account.source_topic} {place}", *walk(account)]))
            raise

    def _check_all_are_mirrored(self) -> None:
        """Every partition of every living topic that a flow copies has an account."""
        for drivers in self.flows:
            for name, topic in drivers.source.topic_by_name.items():
                for number in range(len(topic.logs)):
                    key = (drivers.flow.name, (topic.topic_id, number))
                    assert key in self._accounts, (drivers.flow.name, name)

    # -- one partition ---------------------------------------------------------------------------

    def _copied(self, drivers: FlowDrivers, place: Place, account: Account) -> Copied:
        flow = drivers.flow
        return Copied(
            account=account,
            kind=TopicKind(account.source_topic.rpartition("-")[0]),
            source=self._chronicles[flow.source].at(place),
            targets=self._chronicles[flow.target],
            producer_ids=self._producer_ids(flow.name),
            mirror_ids=self._mirror_ids(flow.source),
            is_relayed=flow.relay,
            is_exclusive=flow.target_mode is TargetMode.EXCLUSIVE,
            is_source_living=place[0] in self._chronicles[flow.source].living,
            is_reopened=bool(LOSING_ENDS & self.faults),
            is_accepted=self._is_accepted(flow.name, account.source_topic, place[1]),
            promise=self.promise,
            stop=self._stop(flow.name, place),
            stops_told=self._stops_told(flow.name, account.source_topic, place[1]),
            told=self._told(flow.name, place, account.target_topic_id),
            returning=self._chronicles[flow.target].former(
                flow.naming.target_name(account.source_topic), place[1]
            ),
        )

    def _told(self, flow: str, place: Place, target_topic_id: str) -> frozenset[int]:
        return frozenset(
            at.offset
            for (name, other), its in self._accounts.items()
            if name == flow and other[1] == place[1]
            for at in its.told
            if at.topic_id == target_topic_id
        )

    def _producer_ids(self, flow: str) -> frozenset[int]:
        """All that it ever had: it gets another one where markers have shut one out."""
        return frozenset(
            int(row["producer_id"]) for row in self.ledger.rows("writers") if row["flow"] == flow
        )

    def _mirror_ids(self, alias: str) -> frozenset[int]:
        rows = self.ledger.rows("writers")
        return frozenset(row["producer_id"] for row in rows if row["target_cluster"] == alias)

    def _stop(self, flow: str, place: Place) -> StopCause | None:
        operator = self.operators[[f.flow.name for f in self.flows].index(flow)]
        stopped = operator.stopped().get(place)
        return None if stopped is None else stopped.cause

    def _stops_told(self, flow: str, topic: str, partition: int) -> frozenset[StopCause]:
        """Whatever topic id it had: what was found under an earlier one is told."""
        state = self.flows[0].state
        return frozenset(
            StopCause(content["cause"])
            for content in state.events(flow, "partition_stopped")
            if (content["topic"], content["partition"]) == (topic, partition)
        )

    def _is_accepted(self, flow: str, topic: str, partition: int) -> bool:
        asked = self.flows[0].state.events(flow, RequestKind.ACCEPT_FOREIGN)
        return any((content["topic"], content["partition"]) == (topic, partition) for content in asked)


def _count_operation(row: Row, tally: Counter[str]) -> None:
    if row["kind"] == "partition_stopped":
        tally[f"stopped by {row['reason']}"] += 1
    elif row["kind"] == TailCopiedAgain.kind:
        tally["tails copied again"] += 1
    elif row["kind"] == Receipt.kind:
        receipt = Receipt.of_row(row)
        tally["requests answered"] += 1
        tally[f"{receipt.request_kind} {receipt.result}"] += 1


def _count_sync(row: Row, tally: Counter[str]) -> None:
    tally["records"] += row["records"]
    tally["recovered"] += row["records"] if row["recovered"] else 0
    tally["raw batches"] += row["raw_batches"]
    tally["record path batches"] += row["record_path_batches"]
    tally["merged batches"] += row["merged_batches"] or 0
    tally[f"{row['kind']} {row['cause'] or ''}".strip()] += 1
    for gap in row["gaps"]:
        tally[f"gaps {gap['cause']}"] += 1
