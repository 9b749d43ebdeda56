"""What MirrorMaker 2 and the imported configuration select of clusters that run, and what they call it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ledger.config.mirror import MirrorConfig
from ledger.mirror_maker.selection import MakerSelection, PolicyKind
from ledger.topics.naming import HEARTBEATS, MIRROR_MAKERS_OWN, SelectionRefusal, matches_any, taken_topics


class Comparison(StrEnum):
    """What both make of a topic or a group."""

    SAME = "same"
    """Both select it, and a topic gets the same name."""
    OTHER_NAME = "other_name"
    """Both select a topic, under different names."""
    ONLY_MIRROR_MAKER = "only_mirror_maker"
    """This configuration leaves it out."""
    ONLY_HERE = "only_here"
    """MirrorMaker leaves it out."""
    MIRROR_MAKERS_OWN = "mirror_makers_own"
    """A topic of MirrorMaker's own, which it copies and which has no meaning here."""
    UNKNOWN = "unknown"
    """A class of somebody's own decides at MirrorMaker."""


DIFFERENCES = frozenset(Comparison) - {Comparison.SAME, Comparison.MIRROR_MAKERS_OWN}

COLUMNS = "flow string, kind string, name string, mirror_maker string, here string, comparison string, remark string"


@dataclass(frozen=True, slots=True)
class SelectedName:
    """A topic or group of a source that either selects.

    `mirror_maker`, `here`: its name at the target, None: it is left out.
    """

    flow: str
    kind: str
    name: str
    mirror_maker: str | None
    here: str | None
    comparison: Comparison
    remark: str = ""


def compared_topics(
    config: MirrorConfig,
    flow_name: str,
    maker: MakerSelection,
    topics: Mapping[str, bool],
    *,
    same_cluster: bool,
) -> Iterator[SelectedName]:
    """By name, of all topics of the source; `topics`: whether the broker says that one is its own."""
    flow, selection = config.flow(flow_name), config.topic_selection(flow_name)
    taken = taken_topics(selection, flow.naming, topics, same_cluster=same_cluster)
    ours = {name: flow.naming.target_name(name) for name in taken.names if name not in taken.conflicts}
    is_known = maker.policy.kind is not PolicyKind.OTHER
    for name, is_internal in sorted(topics.items()):
        is_theirs = not is_internal and maker.takes_topic(name)
        here = ours.get(name)
        if not is_theirs and here is None:
            continue
        theirs = (maker.policy.target_name(name) if is_known else "(unknown)") if is_theirs else None
        comparison = _comparison(theirs, here, is_known=is_known)
        remark = taken.conflicts.get(name) or _why(taken.refusals.get(name)) if here is None else ""
        if comparison is Comparison.ONLY_MIRROR_MAKER and _is_makers(name):
            comparison = Comparison.MIRROR_MAKERS_OWN
        yield SelectedName(flow_name, "topic", name, theirs, here, comparison, remark or "")


def _comparison(theirs: str | None, here: str | None, *, is_known: bool) -> Comparison:
    if theirs is None:
        return Comparison.ONLY_HERE
    if here is None:
        return Comparison.ONLY_MIRROR_MAKER
    if not is_known:
        return Comparison.UNKNOWN
    return Comparison.SAME if theirs == here else Comparison.OTHER_NAME


def _is_makers(name: str) -> bool:
    return matches_any((*MIRROR_MAKERS_OWN, *HEARTBEATS), name)


def _why(refusal: SelectionRefusal | None) -> str:
    return "" if refusal is None else f"left out here: {refusal.replace('_', ' ')}"


def compared_groups(
    config: MirrorConfig, flow_name: str, maker: MakerSelection, groups: Iterable[str]
) -> Iterator[SelectedName]:
    """By name, of all groups of the source that either selects by its name."""
    patterns = config.flow(flow_name).group_patterns
    for name in sorted(groups):
        theirs = name if maker.takes_group(name) else None
        here = name if patterns.matches(name) else None
        if theirs is not None or here is not None:
            yield SelectedName(
                flow_name, "group", name, theirs, here, _comparison(theirs, here, is_known=True)
            )
