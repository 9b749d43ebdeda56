"""Members of groups that stay when their consumer ends: those with a `group.instance.id`.

A static member does not leave its group when its consumer is closed, so that a restart moves no partition. It counts
until its `session.timeout.ms` has passed since its last heartbeat. Who knows that the consumer is stopped need not wait
for that: a broker removes a member by its instance id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledger.context import Context
from ledger.errors import MirrorLedgerError, PreconditionError
from ledger.facts.group_offsets import MembersRemoved
from ledger.kafka.cluster import ClusterAdmin
from ledger.words import counted, shell_word, shown, some_of

HOW_LONG = (
    "they count until their session.timeout.ms has passed since their last heartbeat (brokers do not tell when, at "
    "most group.max.session.timeout.ms), also when their consumers are stopped; where these are, this removes them"
)


def static_words(cluster: ClusterAdmin, groups: Sequence[str]) -> str:
    """Of groups with members those that are static, how long they count, and the command that removes them; empty
    where there are none, or the cluster does not tell."""
    try:
        members = cluster.static_members(groups)
    except MirrorLedgerError:
        return ""
    if not members:
        return ""
    return f" ({member_words(members, cluster.alias)})"


def member_words(members: Mapping[str, Sequence[str]], cluster: str) -> str:
    """Static members by group, how long they count, and the command that removes those of the first."""
    named = [f"of {shown(group)} {', '.join(map(shown, instances))}" for group, instances in members.items()]
    first = shell_word(next(iter(members)))
    command = f"mirror-ledger remove-members {shell_word(cluster)} --group {first} --reason WHY"
    return f"static members {some_of(named, 'group')}: {HOW_LONG}: {command}"


@dataclass(frozen=True, slots=True)
class Removal:
    """`refused`: by instance id why it was not removed, as the broker names the error."""

    operation_id: str | None
    removed: Sequence[str]
    refused: Mapping[str, str]


def remove_members(context: Context, cluster: str, group: str, instances: Sequence[str]) -> Removal:
    """Ask the group's coordinator to remove static members, all where none is named; recorded before.

    Raises `PreconditionError`, and does nothing, where one that is named is none.
    """
    admin = context.cluster(cluster)
    there = admin.static_members([group]).get(group, ())
    strangers = sorted(set(instances) - set(there))
    if strangers:
        raise PreconditionError(
            f"group {shown(group)} of {cluster} has {counted(len(there), 'static member')}"
            f"{': ' if there else ''}{', '.join(map(shown, there))}, and not {', '.join(map(shown, strangers))}; "
            "nothing was removed"
        )
    wanted = tuple(instances or there)
    if not wanted:
        return Removal(None, (), {})
    removed = MembersRemoved(cluster=cluster, cluster_id=admin.cluster_id(), group=group, instances=wanted)
    operation_id = context.record(removed)
    refused = admin.remove_static_members(group, wanted)
    return Removal(operation_id, [one for one in wanted if one not in refused], refused)
