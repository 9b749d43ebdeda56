"""Letting the mirror in again: exactly the rules that a shut-out had created are removed."""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.domain.operations.promotion.shut_outs import MirrorLetIn
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.domain.words.count_words import counted
from ledger.errors import PreconditionError
from ledger.operations.directions import Pair
from ledger.ports.clock import Clock
from ledger.ports.clusters import ShutOutCluster
from ledger.ports.ledger import ChangeoverState, OperationLog

_POLL_S = 0.25
_GONE_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class LetInResult:
    """`operation_id` None: there was nothing to remove, and nothing was recorded."""

    operation_id: str | None
    rules: tuple[TopicAcl, ...]

    @property
    def words(self) -> str:
        if self.operation_id is None:
            return "no rule had shut the mirror out"
        return f"the mirror may write again: {counted(len(self.rules), 'rule')} removed"

    @property
    def facts(self) -> dict[str, object]:
        """For a receipt."""
        return {"rules": [rule.name for rule in self.rules]}


@dataclass(frozen=True, slots=True)
class LetInPorts:
    """`cluster`: the promoted one as who may change rules reaches it."""

    cluster: ShutOutCluster
    state: ChangeoverState
    operations: OperationLog
    clock: Clock
    sleep: Callable[[float], None]


def let_mirror_in(
    pair: Pair,
    ports: LetInPorts,
    *,
    reason: str,
    ticket: str | None = None,
    operation_id: str | None = None,
) -> LetInResult:
    """Remove what shut the mirror out of the topics of a pair, and record it; what keeps others out as well stays.

    Raises `PreconditionError` where the cluster refuses to, `ClusterUnavailableError` where it does not answer.
    """
    cluster_id = ports.cluster.cluster_id()
    shut_outs = ports.state.shut_outs()
    rules = tuple(sorted(shut_outs.rules(cluster_id, pair.ruled, pair.former)))
    if not rules:
        return LetInResult(None, ())
    to_remove = shut_outs.only_of(cluster_id, pair.former, rules)
    ports.cluster.delete_acls(sorted(to_remove))
    _wait_until_gone(to_remove, ports)
    let_in = MirrorLetIn(
        cluster=ports.cluster.alias,
        cluster_id=cluster_id,
        former=pair.former,
        topics=tuple(sorted({rule.name for rule in rules})),
        rules=rules,
    )
    recorded = ports.operations.record_parts(
        [let_in], operation_id=operation_id, flow=None, reason=reason, ticket=ticket
    )
    return LetInResult(recorded, tuple(sorted(to_remove)))


def _wait_until_gone(rules: frozenset[TopicAcl], ports: LetInPorts) -> None:
    deadline = ports.clock.monotonic() + _GONE_WITHIN_S
    while left := _left_of(rules, ports):
        if ports.clock.monotonic() >= deadline:
            names = ", ".join(sorted(rule.name for rule in left))
            raise PreconditionError(
                f"{ports.cluster.alias} still has the rules that shut the mirror out of {names}, though it accepted "
                "their removal; nothing was recorded. Try again"
            )
        ports.sleep(_POLL_S)


def _left_of(rules: frozenset[TopicAcl], ports: LetInPorts) -> frozenset[TopicAcl]:
    """What the cluster still has of them, or a leader: a driver that writes there now would be denied, and stop."""
    topics = sorted({rule.name for rule in rules} & ports.cluster.topics().keys())
    brokers = sorted(set(ports.cluster.leaders(topics).values())) if topics else []
    return rules & frozenset().union(ports.cluster.topic_acls(), *map(ports.cluster.acls_at, brokers))
