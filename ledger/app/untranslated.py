"""Groups of which a translation of committed offsets says nothing, or nothing that is sure to be their last."""

import pyarrow as pa
import pyarrow.compute as pc

from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.adapters.duck import engine
from ledger.app.group_offsets import Chosen, chosen_rows
from ledger.catalog import query

_UNTRANSLATED = pa.array(["share_group", "hidden", "unavailable"])


def untranslated_groups(at: DeltaSnapshot, flow: str, groups: tuple[str, ...] = ()) -> pa.Table:
    """The answer of the query of that name; none named: of all groups."""
    return chosen_rows(engine.run_query(query("untranslated_groups"), {"flow": flow}, at), Chosen(groups))


def untranslated_groups_at(at: DeltaSnapshot, cluster: str, groups: tuple[str, ...] = ()) -> pa.Table:
    """The same of a cluster: rows of `cluster_groups`."""
    found = engine.run_query(query("cluster_groups"), {"cluster": cluster}, at)
    return chosen_rows(found.filter(pc.is_in(found["status"], value_set=_UNTRANSLATED)), Chosen(groups))
