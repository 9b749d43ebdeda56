"""Which Kafka cluster an alias stands for, and which producer ids are whose there.

An alias stands for the cluster that was accepted for it last; before the first acceptance, for the one that
writers claimed with. Another one behind the alias is refused by all that would act on it: what the ledger says
of positions, deletions and producer ids is true of one cluster alone.

A Kafka cluster gives no producer id twice until it is formatted again. One that was, under its old id, gives them from
the beginning, so a declaration that it was rebuilt names the claims (by writer epochs) whose ids prove nothing any
more. Until then it is refused where that is known: the offset of its metadata is lower than before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

from ledger.errors import PreconditionError
from ledger.facts.fences import ShutOuts
from ledger.facts.operations import OperationContent, OperationKind
from ledger.facts.tables import Row

# Cluster acceptances ------------------------------------------------------------------------------
# What operators say of the clusters behind aliases.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAcceptance(OperationContent):
    """An alias stands for another Kafka cluster from now on.

    By `mirror-ledger accept-cluster`.

    Keys: `cluster` (alias), `cluster_id`, `former_id` (what the alias stood for; null: first claims had met several),
    `rebuilt` (it was formatted again under its id), `retired_epochs` (writer to epoch; empty unless `rebuilt`).
    """

    kind: ClassVar = OperationKind.CLUSTER_ACCEPTED
    cluster: str
    cluster_id: str
    former_id: str | None
    rebuilt: bool
    retired_epochs: Mapping[str, int] = field(default_factory=dict)


# Cluster identity ---------------------------------------------------------------------------------


DRAWN_IDS = range(1 << 52, 1 << 53)
"""Flows draw their producer ids from these: brokers count theirs from 0, at each cluster. JSON has each exactly."""


def was_drawn(producer_id: int | None) -> bool:
    """Whether it is one of these, which is not asked of the range: that compares each with what is no `int`."""
    return producer_id is not None and DRAWN_IDS.start <= producer_id < DRAWN_IDS.stop


METADATA_LAG = 1200
"""How far one broker's metadata may be behind another's; a cluster that does nothing writes two records a second."""


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """A cluster as it answers: its id, and how far its metadata has come (None: it does not tell)."""

    cluster_id: str
    metadata_offset: int | None


@dataclass(frozen=True, slots=True)
class RememberedProducer:
    """What a partition's leader remembers of a producer; `transactional_id` None: it has none, or it is not shown."""

    last_timestamp_ms: int | None
    has_open_transaction: bool
    transactional_id: str | None


@dataclass(frozen=True, slots=True)
class FlowProducer:
    """The producer ids of one flow at one Kafka cluster: it writes with `current`, and wrote with `former`."""

    current: int
    former: frozenset[int] = frozenset()

    def wrote(self, producer_id: int) -> bool:
        """Whether a batch with this id is the flow's own."""
        return producer_id == self.current or producer_id in self.former

    @property
    def is_drawn(self) -> bool:
        """Whether the id that it writes with is nobody else's, at whatever cluster."""
        return was_drawn(self.current)

    @property
    def was_refused(self) -> bool:
        """Whether its target took no id that it had not given: then the flow writes with one that it gave."""
        return not self.is_drawn and any(map(was_drawn, self.former))

    @property
    def mistakable(self) -> frozenset[int]:
        """Ids that applications of other clusters may have as well, and that it takes another one for."""
        given = frozenset(one for one in self.former | {self.current} if not was_drawn(one))
        return given - {self.current} if self.was_refused else given

    def as_former(self, producer_id: int) -> int | None:
        """The id if it is a former one; None for the current one."""
        return producer_id if producer_id in self.former else None

    def after(self, producer_id: int, replaces: int | None) -> Self:
        """With the id of one more claim: a first driver that lost a race has one too, and writes nothing with it."""
        if producer_id == self.current:
            return self
        if replaces == self.current:
            return type(self)(producer_id, self.former | {self.current})
        return type(self)(self.current, self.former | {producer_id})


@dataclass(frozen=True, slots=True)
class ClusterIdentities:
    """What `writers` and acceptances say of clusters; acceptances in the order of the operators' serial.

    `shut_outs`: what says of which producer ids a cluster holds markers.
    """

    writers: Sequence[Row]
    acceptances: Sequence[ClusterAcceptance]
    shut_outs: ShutOuts = field(default_factory=ShutOuts)

    @classmethod
    def of_rows(
        cls, writers: Iterable[Row], operations: Iterable[Row], shut_outs: Iterable[Row] = ()
    ) -> Self:
        """From rows of `writers`, and those of `operations` of the kinds `cluster_accepted` and `SHUT_OUT_KINDS`.

        Those of `operations` in order.
        """
        accepted = [ClusterAcceptance.of_row(row) for row in operations]
        return cls(list(writers), accepted, ShutOuts.of_rows(shut_outs))

    # -- aliases ---------------------------------------------------------------------------------

    def recorded_id(self, cluster: str) -> str | None:
        """The Kafka cluster id that an alias stands for; None when nobody ever claimed with it, or with several."""
        possible = self.possible_ids(cluster)
        return next(iter(possible)) if len(possible) == 1 else None

    def possible_ids(self, cluster: str) -> frozenset[str]:
        """The id that was accepted last; before the first acceptance, those that anybody claimed with.

        Several can be claimed with only by first claims at one moment: each later one is compared with the others.
        """
        accepted = [one.cluster_id for one in self.acceptances if one.cluster == cluster]
        if accepted:
            return frozenset({accepted[-1]})
        return frozenset(
            str(row[f"{side}_cluster_id"])
            for row in self.writers
            for side in ("source", "target")
            if row[f"{side}_cluster"] == cluster and row[f"{side}_cluster_id"] is not None
        )

    def recorded_ids(self) -> dict[str, str]:
        """By alias what it stands for, of all that anybody claimed with or accepted; several ids are named together."""
        aliases = {one.cluster for one in self.acceptances}
        for row in self.writers:
            aliases |= {row["source_cluster"], row["target_cluster"]}
        found = {alias: self.possible_ids(alias) for alias in aliases if alias is not None}
        return {alias: " and ".join(sorted(possible)) for alias, possible in found.items() if possible}

    def ways(self) -> dict[str, tuple[str, str]]:
        """By flow the clusters that it was claimed with last, by alias: all that ever ran, whatever becomes of them."""
        claims = [
            row for row in self.writers if row["flow"] is not None and row["target_cluster"] is not None
        ]
        claims.sort(key=lambda row: (row["writer_epoch"], row["round"]))
        return {row["flow"]: (row["source_cluster"], row["target_cluster"]) for row in claims}

    def require(self, cluster: str, live: LiveCluster) -> None:
        """Raise `PreconditionError` unless the cluster behind an alias is the recorded one, and was all the time."""
        possible, live_id = self.possible_ids(cluster), live.cluster_id
        if possible and possible != {live_id}:
            raise PreconditionError(
                f"another cluster answers behind {cluster}: its Kafka cluster id is {live_id}, the ledger knows "
                f"{' and '.join(sorted(possible))}; nothing was copied, recorded or deleted. Correct "
                f"bootstrap_servers; or, if {cluster} is to be that cluster from now on: mirror-ledger "
                f"accept-cluster {cluster} --cluster-id {live_id} --reason WHY"
            )
        reached = self._metadata_offset(live_id)
        found = live.metadata_offset
        if reached is not None and found is not None and reached - found > METADATA_LAG:
            raise PreconditionError(
                f"{cluster} has the Kafka cluster id that the ledger knows, {live_id}, but its metadata went back from "
                f"offset {reached} to {found}: it was formatted again, and gives producer ids and topics "
                "again; nothing was copied, recorded or deleted. If that is so: mirror-ledger accept-cluster "
                f"{cluster} --cluster-id {live_id} --rebuilt --reason WHY"
            )

    def _metadata_offset(self, cluster_id: str) -> int | None:
        """How far the metadata of a cluster had come, as claims say that count."""
        reached = [
            row[f"{side}_metadata_offset"]
            for row, side in self._claims_with(cluster_id)
            if row.get(f"{side}_metadata_offset") is not None
        ]
        return max(reached, default=None)

    def _claims_with(self, cluster_id: str) -> list[tuple[Row, str]]:
        """Claims that say something of a cluster as it is now, each with the side that it is on."""
        retired = self._retired_epochs(cluster_id)
        return [
            (row, side)
            for row in self.writers
            for side in ("source", "target")
            if row[f"{side}_cluster_id"] == cluster_id and row["writer_epoch"] > retired.get(row["writer"], 0)
        ]

    # -- producer ids ----------------------------------------------------------------------------

    def producers(self, cluster_id: str) -> dict[str, FlowProducer]:
        """By flow, its producer ids at a Kafka cluster."""
        found: dict[str, FlowProducer] = {}
        for row in sorted(self._claimed_at(cluster_id), key=lambda row: (row["writer_epoch"], row["round"])):
            flow, producer_id = str(row["flow"]), int(row["producer_id"])
            known = found.get(flow)
            found[flow] = (
                FlowProducer(producer_id)
                if known is None
                else known.after(producer_id, row.get("former_producer_id"))
            )
        return found

    def mirror_ids(self, cluster_id: str) -> frozenset[int]:
        """Every producer id that flows have had at a Kafka cluster."""
        return frozenset(int(row["producer_id"]) for row in self._claimed_at(cluster_id))

    def certain_ids(self, cluster_id: str) -> frozenset[int]:
        """Those of them that alone say of a batch, wherever it lies, that a mirror wrote it."""
        mistakable = [one.mistakable for one in self.producers(cluster_id).values()]
        return self.mirror_ids(cluster_id).difference(*mistakable)

    def given_ids(self, cluster_id: str) -> frozenset[int]:
        """Every producer id that a Kafka cluster has given as far as is known, and those that it need not have."""
        given = (row.get("allocated_producer_id") for row in self._claimed_at(cluster_id))
        return self.mirror_ids(cluster_id).union(one for one in given if one is not None)

    def fenced_topics(self, flow: str, cluster_id: str) -> frozenset[str]:
        """Topics that markers have shut the id out of that a flow writes with at a Kafka cluster."""
        producer = self.producers(cluster_id).get(flow)
        return frozenset() if producer is None else self.shut_outs.fenced_topics(cluster_id, producer.current)

    def _claimed_at(self, cluster_id: str) -> list[Row]:
        return [
            row
            for row, side in self._claims_with(cluster_id)
            if side == "target" and row["producer_id"] is not None
        ]

    def _retired_epochs(self, cluster_id: str) -> dict[str, int]:
        retired: dict[str, int] = {}
        for accepted in self.acceptances:
            if accepted.cluster_id == cluster_id:
                for writer, epoch in accepted.retired_epochs.items():
                    retired[writer] = max(epoch, retired.get(writer, 0))
        return retired

    # -- accepting -------------------------------------------------------------------------------

    def accepting(self, cluster: str, cluster_id: str, *, rebuilt: bool) -> ClusterAcceptance:
        """The acceptance of a cluster as things stand."""
        epochs: dict[str, int] = {}
        for row, _ in self._claims_with(cluster_id) if rebuilt else ():
            epochs[row["writer"]] = max(row["writer_epoch"], epochs.get(row["writer"], 0))
        return ClusterAcceptance(
            cluster=cluster,
            cluster_id=cluster_id,
            former_id=self.recorded_id(cluster),
            rebuilt=rebuilt,
            retired_epochs=epochs,
        )
