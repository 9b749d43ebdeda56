"""Which findings are open: SQL and the rule that drivers go by say the same, whatever clocks say."""

import json
from itertools import count

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger.store import catalog
from ledger.store.sql import run_query
from tests.simulation.ledger.fact_log import MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.ledger_rows import row

FLOW = "east-to-west"
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("finding_raised", "finding_cleared")),
        st.sampled_from((1_000, 1_001)),
        st.sampled_from(("recompressed", "more_partitions")),
        st.sampled_from((None, "orders")),
        st.sampled_from((None, 0)),
    ),
    min_size=20,  # of eight findings: some are never raised
    max_size=40,
)


@settings(deadline=None, max_examples=15)
@example([])
@given(EVENTS)
def test_open_findings_are_those_of_the_query(
    events: list[tuple[str, int, str, str | None, int | None]],
) -> None:
    ledger, numbers = MemoryLedger(), count(1)
    for kind, at_ms, finding, topic, partition in events:
        content = {"finding": finding, "topic": topic, "partition": partition, "message": "m"}
        number = next(numbers)
        event = row(
            "operations",
            writer_epoch=number // 10,
            round=number,
            operation_id=str(number),
            flow=FLOW,
            kind=kind,
            recorded_at_ms=at_ms,
            content=json.dumps(content),
        )
        ledger.append("operations", [event])
    at = ledger.at(ledger.latest())
    answer = run_query(catalog.query("flow_findings"), {"flow": FLOW}, at).to_pylist()
    told = {(found["finding"], found["source_topic"], found["source_partition"]) for found in answer}
    assert told == MemoryLedgerState(ledger).open_findings(FLOW)
