"""Accepting another cluster behind an alias, or one formatted again: what is asked, compared with the ledger."""

from ledger.domain.cluster_identity import ClusterIdentities
from ledger.domain.operations.cluster_acceptances import ClusterAcceptance
from ledger.errors import PreconditionError, UsageError


def judge_acceptance(
    identities: ClusterIdentities, cluster: str, cluster_id: str, *, live_id: str, rebuilt: bool
) -> ClusterAcceptance | None:
    """The acceptance to record; None when the alias stands for that cluster already.

    Raises when it is not the one that answers, or when the ledger knows nothing that it could contradict.
    """
    possible = identities.possible_ids(cluster)
    if live_id != cluster_id:
        raise PreconditionError(
            f"the cluster that answers behind {cluster} has the Kafka cluster id {live_id}, not {cluster_id}; "
            "nothing was recorded"
        )
    if not possible:
        raise PreconditionError(
            f"nobody ever ran with {cluster}: the first driver or recorder makes {cluster_id} the one that it "
            "stands for; nothing was recorded"
        )
    if rebuilt and cluster_id not in possible:
        known = " and ".join(sorted(possible))
        raise UsageError(
            f"--rebuilt is for a cluster that was formatted again under the id that the ledger knows, {known}; "
            f"{cluster_id} is another one, whose producer ids are its own: leave --rebuilt out; nothing was recorded"
        )
    if possible == {cluster_id} and not rebuilt:
        return None
    return identities.accepting(cluster, cluster_id, rebuilt=rebuilt)


def consequences(acceptance: ClusterAcceptance) -> str:
    """What holds from now on."""
    if acceptance.rebuilt:
        return (
            f"{acceptance.cluster} ({acceptance.cluster_id}) was formatted again: flows that write there get new "
            f"producer ids, those recorded until now name no mirror there any "
            "more; topics of the old names are new topics (source_recreated, target_recreated)"
        )
    no_longer = "" if acceptance.former_id is None else f", no longer for {acceptance.former_id}"
    return (
        f"{acceptance.cluster} stands for {acceptance.cluster_id} from now on{no_longer}: "
        "flows that write there get new producer ids; what is recorded of the former cluster stays, its topics are "
        "other topics than those of the same name here (source_recreated, target_recreated)"
    )
