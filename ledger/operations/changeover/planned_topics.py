"""The topics of a plan, compared with those that its clusters have while it is carried out."""

from collections.abc import Iterable, Mapping

from ledger.domain.changeover.applies import undo_command
from ledger.domain.changeover.plans import PlannedTopic
from ledger.errors import PreconditionError
from ledger.ports.clusters import ClusterAdmin


def require_no_later(
    planned: Iterable[PlannedTopic], copied: Iterable[tuple[str, str]], *, operation_id: str
) -> None:
    """Raise `PreconditionError` where flows have begun with topics that the plan does not have.

    `copied`: flows and the topics of the source that they copy by now. Of a plan that names no topics all of the pair
    is promoted: what began since would be, without having been fenced, drained or moved.
    """
    known = {(one.flow, one.source_topic) for one in planned}
    if later := sorted({topic for flow, topic in copied if (flow, topic) not in known}):
        raise PreconditionError(
            f"{', '.join(later)} began to be copied since the plan was made, so the plan is not about all that would "
            f"change direction: nothing of this step was done. Undo what was done before: "
            f"{undo_command(operation_id)}; then plan again"
        )


def changed_topics(cluster: ClusterAdmin, topic_ids: Mapping[str, str]) -> dict[str, str]:
    """By name what became of topics that do not have the id any more that a plan is about.

    Offsets, commits and rules of another incarnation are not what the plan was made from: it cannot be continued.
    """
    there = cluster.topics()
    found = {}
    for name, planned_id in sorted(topic_ids.items()):
        live = there.get(name)
        if live is None:
            found[name] = f"{cluster.alias} has no topic {name} any more, or does not show it"
        elif live.topic_id != planned_id:
            found[name] = (
                f"topic {name} of {cluster.alias} was created again: its topic id is {live.topic_id}, the plan is "
                f"about {planned_id}"
            )
    return found
