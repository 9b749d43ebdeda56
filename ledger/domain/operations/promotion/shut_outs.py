"""What keeps the mirror itself from writing to topics that were promoted, as it is recorded, and how it ends."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from ledger.domain.operations.content import OperationContent, Row
from ledger.domain.operations.kinds import OperationKind
from ledger.domain.operations.target_changes import known_acls
from ledger.domain.topics.topic_acls import TopicAcl


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochMarker:
    """An abort marker of a flow's producer id with a later producer epoch: earlier ones are refused behind it."""

    flow: str
    producer_id: int
    producer_epoch: int
    topic: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutOutProof:
    """What proves that a flow writes no more to a partition of the promoted cluster.

    `stopped`: how it is known that its driver stopped. `fences`: what keeps a mirror out that does not know of the
    promotion (`deny`, `marker`). `reason`: why it is not proven, None: it is.
    """

    flow: str
    topic: str
    partition: int
    stopped: str
    fences: tuple[str, ...]
    reason: str | None

    @property
    def is_proven(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorShutOut(OperationContent):
    """How the mirror is shut out of promoted topics.

    `flows`: by name the writer epoch that has stopped, 0: it never ran. `rules`: those that were created for it, and
    are to be removed again; `markers`: all that there are for it. `proof` None: it is about to be done.
    """

    kind: ClassVar = OperationKind.MIRROR_SHUT_OUT
    cluster: str
    cluster_id: str
    former: str
    principal: str | None
    flows: Mapping[str, int]
    topics: tuple[str, ...]
    rules: tuple[TopicAcl, ...]
    markers: tuple[EpochMarker, ...]
    proof: tuple[ShutOutProof, ...] | None

    def content(self) -> dict[str, object]:
        return {
            "cluster": self.cluster,
            "cluster_id": self.cluster_id,
            "former": self.former,
            "principal": self.principal,
            "flows": dict(self.flows),
            "topics": list(self.topics),
            "rules": [asdict(rule) for rule in self.rules],
            "markers": [asdict(marker) for marker in self.markers],
            "proof": None if self.proof is None else [_proof_content(proof) for proof in self.proof],
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        proof = content["proof"]
        named = {name: content[name] for name in ("cluster", "cluster_id", "former", "principal", "flows")}
        return cls(
            **named,
            topics=tuple(content["topics"]),
            rules=tuple(known_acls(content["rules"])),
            markers=tuple(EpochMarker(**_known(EpochMarker, marker)) for marker in content["markers"]),
            proof=None if proof is None else tuple(map(_proof_of, proof)),
        )


def _proof_content(proof: ShutOutProof) -> dict[str, object]:
    return {**asdict(proof), "fences": list(proof.fences)}


def _proof_of(content: Mapping[str, Any]) -> ShutOutProof:
    return ShutOutProof(**{**_known(ShutOutProof, content), "fences": tuple(content["fences"])})


def _known(kind: type[EpochMarker | ShutOutProof], content: Mapping[str, Any]) -> dict[str, Any]:
    """Without keys of a later program."""
    return {field.name: content[field.name] for field in fields(kind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLetIn(OperationContent):
    """Rules that shut the mirror out of topics were removed; markers stay for ever.

    `former`: the cluster over which it is promoted no more, None: any (rows of earlier programs). A rule that keeps
    flows from another cluster out as well is named and stays.
    """

    kind: ClassVar = OperationKind.MIRROR_LET_IN
    cluster: str
    cluster_id: str
    former: str | None = None
    topics: tuple[str, ...]
    rules: tuple[TopicAcl, ...]

    def content(self) -> dict[str, object]:
        return {
            "cluster": self.cluster,
            "cluster_id": self.cluster_id,
            "former": self.former,
            "topics": list(self.topics),
            "rules": [asdict(rule) for rule in self.rules],
        }

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        return cls(
            cluster=content["cluster"],
            cluster_id=content["cluster_id"],
            former=content.get("former"),
            topics=tuple(content["topics"]),
            rules=tuple(known_acls(content["rules"])),
        )


SHUT_OUT_KINDS = (OperationKind.MIRROR_SHUT_OUT, OperationKind.MIRROR_LET_IN)


@dataclass(frozen=True, slots=True)
class ShutOuts:
    """All that was recorded of it, in the order of the operators' serial."""

    changes: Sequence[MirrorShutOut | MirrorLetIn] = ()

    @classmethod
    def of_rows(cls, rows: Iterable[Row]) -> Self:
        """From rows of `operations` of `SHUT_OUT_KINDS`, in the order of their stamps."""
        return cls([_change(row) for row in rows])

    def rules(
        self, cluster_id: str, topics: Collection[str] | None, former: str | None = None
    ) -> frozenset[TopicAcl]:
        """Rules that were created at a cluster for these topics (None: all) and not removed since.

        `former`: those that keep flows from there out, None: from anywhere.
        """
        standing = self._by_former(cluster_id)
        found = standing.values() if former is None else (standing.get(former, frozenset()),)
        return frozenset(rule for rules in found for rule in rules if topics is None or rule.name in topics)

    def only_of(self, cluster_id: str, former: str, rules: Collection[TopicAcl]) -> frozenset[TopicAcl]:
        """Of these rules those that keep nobody out but flows from `former`."""
        standing = self._by_former(cluster_id)
        others = [rules_of for name, rules_of in standing.items() if name != former]
        return frozenset(rules).difference(*others)

    def _by_former(self, cluster_id: str) -> dict[str, frozenset[TopicAcl]]:
        standing: dict[str, frozenset[TopicAcl]] = {}
        for change in self.changes:
            named = frozenset(change.rules)
            if change.cluster_id != cluster_id:
                continue
            if isinstance(change, MirrorShutOut):
                standing[change.former] = standing.get(change.former, frozenset()) | named
            else:
                for former in standing:
                    if change.former in (None, former):
                        standing[former] -= named
        return standing

    def has_rules(self, cluster: str, former: str, topics: Collection[str] | None) -> bool:
        """Whether rules stand that keep flows from `former` out of these topics (None: all) of what an alias stood
        for."""
        ids = {change.cluster_id for change in self.changes if change.cluster == cluster}
        return any(self.rules(cluster_id, topics, former) for cluster_id in ids)

    def fenced_ids(self, cluster_id: str) -> frozenset[int]:
        """Producer ids of which a cluster holds markers, or may hold them: nothing is written with them again."""
        return frozenset(
            marker.producer_id
            for change in self.changes
            if isinstance(change, MirrorShutOut) and change.cluster_id == cluster_id
            for marker in change.markers
        )


def _change(row: Row) -> MirrorShutOut | MirrorLetIn:
    is_shut_out = row["kind"] == OperationKind.MIRROR_SHUT_OUT
    return MirrorShutOut.of_row(row) if is_shut_out else MirrorLetIn.of_row(row)
