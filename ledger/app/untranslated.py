"""Groups of which a translation of committed offsets says nothing, or nothing that is sure to be their last."""

import pyarrow as pa
import pyarrow.compute as pc

from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.adapters.duck import engine
from ledger.app.group_offsets import Chosen, chosen_rows
from ledger.catalog import query
from ledger.operations.groups.position_sheet import OTHER_GROUPS, UNREAD_ADVICE

_UNTRANSLATED = pa.array(["share_group", "hidden", "unavailable"])


def untranslated_groups(at: DeltaSnapshot, flow: str, groups: tuple[str, ...] = ()) -> pa.Table:
    """The answer of the query of that name; none named: of all groups."""
    return chosen_rows(engine.run_query(query("untranslated_groups"), {"flow": flow}, at), Chosen(groups))


def unread_groups_at(at: DeltaSnapshot, cluster: str, groups: tuple[str, ...] = ()) -> dict[str, str]:
    """By group why nobody knows where it stands, the groups that were not listed (`OTHER_GROUPS`) among them.

    Of groups that are named nothing is said of others.
    """
    found = engine.run_query(query("cluster_groups"), {"cluster": cluster}, at).to_pylist()
    return {
        OTHER_GROUPS if row["group_id"] is None else row["group_id"]: row["status"]
        for row in found
        if row["status"] in UNREAD_ADVICE and (not groups or row["group_id"] in groups)
    }


def untranslated_groups_at(at: DeltaSnapshot, cluster: str, groups: tuple[str, ...] = ()) -> pa.Table:
    """The same of a cluster: rows of `cluster_groups`."""
    found = engine.run_query(query("cluster_groups"), {"cluster": cluster}, at)
    return chosen_rows(found.filter(pc.is_in(found["status"], value_set=_UNTRANSLATED)), Chosen(groups))
