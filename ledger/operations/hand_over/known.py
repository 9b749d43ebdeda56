"""What the ledger knows of the cluster where applications were: its topics, their settings, its permissions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ledger.config.flow import FlowConfig, TargetMode
from ledger.domain.cluster_identity import ClusterIdentities
from ledger.domain.facts import TopicState
from ledger.domain.fences.receipts import Fences
from ledger.domain.hand_over.permissions import NotCarried, TopicNames, of_topic_acl
from ledger.domain.hand_over.receipts import HandOvers
from ledger.domain.hand_over.settings import LIMIT, Settings, TopicHandOver, before_fence
from ledger.domain.operations.directions import Directions
from ledger.domain.permissions import Permissions
from ledger.domain.topics.naming import NamingKind
from ledger.domain.topics.topic_acls import TopicAcl
from ledger.errors import PreconditionError
from ledger.operations.directions import Pair
from ledger.ports.ledger import FlowPosition

Selects = Callable[[FlowConfig, str], bool]
"""Whether a flow copies this topic of its source."""


class RecordedPair(Protocol):
    """What is asked of the ledger."""

    def identities(self) -> ClusterIdentities: ...
    def positions(self, flow: str) -> list[FlowPosition]: ...
    def last_topic_states(self, cluster: str) -> list[TopicState]: ...
    def topic_history(self, cluster: str) -> list[TopicState]: ...
    def last_permissions(self, cluster: str, cluster_id: str) -> Permissions: ...
    def followed_settings(self, flow: str) -> dict[str, frozenset[str]]: ...
    def fences(self) -> Fences: ...
    def denied_by_fences(self, cluster: str) -> frozenset[TopicAcl]: ...
    def denied_by_hand(self, cluster: str) -> frozenset[TopicAcl]: ...
    def hand_overs(self) -> HandOvers: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """A topic of the pair. `settings`: its own at the former cluster, without fences and what it has for a copy back.

    `settings` None: they are not recorded. `is_promotable`: applications take it over from the mirror, under its name.
    `set_by_mirror`: by topic id at the other cluster.
    """

    source: str
    target: str
    flow: str
    is_promotable: bool
    settings: Settings | None
    limit_is_known: bool = True
    set_by_mirror: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPair:
    """`former`: where applications were; `cluster`: where they come to."""

    former: str
    cluster: str
    topics: tuple[KnownTopic, ...]
    at_former: frozenset[str]
    permissions: Permissions
    not_carried: NotCarried

    def names(self, at_cluster: Iterable[str]) -> TopicNames:
        """Of its topics those that are there now."""
        there = frozenset(at_cluster)
        carried = {topic.source: topic.target for topic in self.topics if topic.target in there}
        return TopicNames.of(carried, at_source=self.at_former, at_target=there)


def known_pair(
    state: RecordedPair,
    pair: Pair,
    flows: Sequence[FlowConfig],
    selects: Selects,
    mirrors: frozenset[str],
) -> KnownPair:
    """From the newest ledger; raises `PreconditionError` when it knows no topic of the pair.

    `mirrors`: principals of mirrors at both clusters.
    """
    fences = [one.fence for one in state.fences().at(pair.former)]
    limits = {fence.topic: fence.former[LIMIT] for fence in fences if LIMIT in fence.former}
    given = state.hand_overs().given_to_mirror(pair.former)
    states = {
        one.topic: _before_copies_back(one, given.get((one.topic, one.topic_id)))
        for one in state.last_topic_states(pair.former)
    }
    earlier = _history(state, pair.former, states, limits)
    topics = [topic for flow in flows for topic in _topics_of(flow, state, states, earlier, selects)]
    wanted = [topic for topic in topics if pair.topics is None or topic.target in pair.topics]
    missing = set(pair.topics or ()) - {topic.target for topic in wanted}
    if missing or not wanted:
        raise PreconditionError(
            f"the ledger knows no topic {', '.join(sorted(missing)) or 'at all'} that was copied from {pair.former} to "
            f"{pair.cluster}; nothing was changed"
        )
    former_id = state.identities().recorded_id(pair.former)
    return KnownPair(
        former=pair.former,
        cluster=pair.cluster,
        topics=tuple({topic.target: topic for topic in wanted}.values()),
        at_former=frozenset(states),
        permissions={} if former_id is None else state.last_permissions(pair.former, former_id),
        not_carried=NotCarried(
            mirrors,
            frozenset(
                map(of_topic_acl, state.denied_by_hand(pair.former) | state.denied_by_fences(pair.former))
            ),
        ),
    )


def _before_copies_back(topic: TopicState, given: TopicHandOver | None) -> TopicState:
    """With its settings as applications had them; what somebody has changed since then stays."""
    if given is None:
        return topic
    own = dict(topic.configuration)
    back = given.way_back(own)
    kept = {name: value for name, value in own.items() if name not in back.to_remove}
    return replace(topic, configuration=tuple(sorted({**kept, **back.to_set}.items())))


def _history(
    state: RecordedPair, cluster: str, states: Mapping[str, TopicState], limits: Mapping[str, str | None]
) -> dict[str, list[Settings]]:
    """Earlier settings of fenced topics by topic id; what receipts of fences say counts before what was seen."""
    fenced = [one for one in states.values() if before_fence(dict(one.configuration), ()) is None]
    found: dict[str, list[Settings]] = {}
    if any(one.topic not in limits for one in fenced):
        for one in state.topic_history(cluster):
            found.setdefault(one.topic_id, []).append(dict(one.configuration))
    for one in fenced:
        if one.topic in limits:
            limit = limits[one.topic]
            found[one.topic_id] = [{} if limit is None else {LIMIT: limit}]
    return found


def _topics_of(
    flow: FlowConfig,
    state: RecordedPair,
    states: Mapping[str, TopicState],
    earlier: Mapping[str, Sequence[Settings]],
    selects: Selects,
) -> list[KnownTopic]:
    copied = {position.source_topic for position in state.positions(flow.name)}
    selected = {topic for topic in states if selects(flow, topic)}
    followed = state.followed_settings(flow.name)
    is_promotable = flow.topic_naming is NamingKind.IDENTITY and flow.target_mode is TargetMode.EXCLUSIVE
    return [
        _known_topic(topic, flow, states.get(topic), earlier, followed, is_promotable=is_promotable)
        for topic in sorted(copied | selected)
        if flow.naming.names(topic)
    ]


def _known_topic(
    topic: str,
    flow: FlowConfig,
    state: TopicState | None,
    earlier: Mapping[str, Sequence[Settings]],
    followed: Mapping[str, frozenset[str]],
    *,
    is_promotable: bool,
) -> KnownTopic:
    own = None if state is None else dict(state.configuration)
    unfenced = None if own is None or state is None else before_fence(own, earlier.get(state.topic_id, ()))
    is_known = own is None or unfenced is not None
    return KnownTopic(
        source=topic,
        target=flow.naming.target_name(topic),
        flow=flow.name,
        is_promotable=is_promotable,
        settings=own if unfenced is None else unfenced,
        limit_is_known=is_known,
        set_by_mirror=followed,
    )


def require_promoted(known: KnownPair, directions: Directions) -> None:
    """Raise `PreconditionError` while a flow may write to one of the topics and follow its settings there."""
    topics = [topic for topic in known.topics if topic.is_promotable]
    waiting = [one for one in topics if directions.promotion(known.former, known.cluster, one.target) is None]
    if waiting:
        names = ", ".join(sorted(topic.target for topic in waiting))
        raise PreconditionError(
            f"{names} of {known.cluster} is not promoted over {known.former}: flow "
            f"{' and '.join(sorted({topic.flow for topic in waiting}))} may write there and set what copying needs; "
            f"nothing was changed. First: mirror-ledger promote {known.cluster} --over {known.former} --reason WHY"
        )
