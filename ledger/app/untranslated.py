"""Groups of which a translation of committed offsets says nothing, or nothing that is sure to be their last."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ledger.adapters.delta.snapshots import DeltaSnapshot
from ledger.adapters.duck import engine
from ledger.catalog import query


def untranslated_groups(at: DeltaSnapshot, flow: str, groups: Sequence[str] = ()) -> pa.Table:
    """The answer of the query of that name; none named: of all groups."""
    found = engine.run_query(query("untranslated_groups"), {"flow": flow}, at)
    return found.filter(pc.is_in(found["group_id"], value_set=pa.array(groups))) if groups else found
