"""Offset syncs in queries: decided extras, and a single offset."""

import json
import os
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from ledger.errors import InvalidValueError, UsageError
from ledger.facts.extras import STAY_LOCAL, DecidedExtras, ExtraRange, ExtrasDecided, ExtrasPolicy
from ledger.facts.operations import OperationContent
from ledger.store import sql
from ledger.store.sql import (
    flows,
    translate_offset,
)
from tests.simulation.ledger.tables import MemoryLedger, MemorySnapshot
from tests.support.ledger_rows import row

# -- Decided extras --------------------------------------------------------------------------------

SEED = int(os.environ.get("MIRROR_LEDGER_SEED", "20"))
TOPICS = 40
Place = tuple[str, int, int]
"""Topic, partition and offset."""


def test_the_last_decision_on_each_offset_counts() -> None:
    print(f"MIRROR_LEDGER_SEED={SEED}")
    chance = random.Random(SEED)
    decisions = [decision(chance) for _ in range(TOPICS * 6)]
    policies: dict[Place, str] = {}
    for one in decisions:
        policies |= dict.fromkeys(places(one), one.policy)
    stretches = decided(decisions)
    assert len(stretches) < len(policies)
    assert {place: found["policy"] for found in stretches for place in places_of(found)} == policies
    rows = [decided_row(number, one) for number, one in enumerate(decisions, 1)]
    chance.shuffle(rows)
    local = DecidedExtras.of_rows(rows).local
    assert {
        (topic_id.removeprefix("id of "), partition, offset)
        for (topic_id, partition), ranges in local.items()
        for start, end in ranges
        for offset in range(start, end)
    } == {place for place, policy in policies.items() if policy in STAY_LOCAL}


def decision(chance: random.Random) -> ExtrasDecided:
    starts = sorted(chance.sample(range(30), chance.randint(1, 3)))
    topic = f"t{chance.randrange(TOPICS)}"
    return ExtrasDecided(
        cluster="east",
        cluster_id=None,
        topic=topic,
        topic_id=f"id of {topic}",
        policy=chance.choice(list(ExtrasPolicy)),
        ranges=tuple(
            ExtraRange(
                partition=chance.randrange(2), extra_start=start, extra_end=start + chance.randint(1, 9)
            )
            for start in starts
        ),
    )


def places(one: ExtrasDecided) -> Iterator[Place]:
    for found in one.ranges:
        for offset in range(found.extra_start, found.extra_end):
            yield one.topic, found.partition, offset


def places_of(stretch: dict[str, object]) -> Iterator[Place]:
    start, end, partition = stretch["extra_start"], stretch["extra_end"], stretch["partition"]
    assert isinstance(start, int)
    assert isinstance(end, int)
    assert isinstance(partition, int)
    for offset in range(start, end):
        yield str(stretch["topic"]), partition, offset


def decided(decisions: list[ExtrasDecided]) -> list[dict[str, object]]:
    """As the view has them, of rows that lie in the ledger in another order than they were appended."""
    ledger = MemoryLedger()
    for number, one in reversed(list(enumerate(decisions, 1))):
        ledger.append("operations", [decided_row(number, one)])
    with sql.connect(ledger.at(ledger.latest()), {}, ("decided_extras",)) as connection:
        found: pa.Table = connection.sql("from decided_extras").to_arrow_table()
    return list(found.to_pylist())


def decided_row(number: int, said: OperationContent) -> dict[str, object]:
    return row("operations", kind=said.kind, round=number, content=json.dumps(said.content()))


# -- A single offset -------------------------------------------------------------------------------


def claim(
    flow: str | None, source_cluster: str, writer_epoch: int, event: str = "claimed"
) -> dict[str, object]:
    return row(
        "writers", flow=flow, source_cluster=source_cluster, writer_epoch=writer_epoch, event=event, round=0
    )


def sync(flow: str, topic: str, topic_id: str, partition: int, epoch: int, round_: int) -> dict[str, object]:
    """Source `[0, 10)` to a target that the words of the key tell apart."""
    return row(
        "offset_syncs",
        flow=flow,
        source_topic=topic,
        source_topic_id=topic_id,
        source_partition=partition,
        target_topic=f"{flow}.{topic}.{topic_id}.{partition}",
        target_topic_id="X",
        source_end=10,
        target_end=10,
        kind="copied",
        writer_epoch=epoch,
        round=round_,
    )


@pytest.fixture
def snapshot() -> MemorySnapshot:
    ledger = MemoryLedger()
    ledger.append("writers", [claim("f", "old", 1), claim("f", "east", 2), claim("f", "off", 3, "released")])
    ledger.append("writers", [claim("g", "north", 9), claim(None, "east", 1)])
    ledger.append("offset_syncs", [sync("f", "t", "T", 0, 2, 2), sync("f", "t", "OLD", 0, 1, 9)])
    ledger.append("offset_syncs", [sync("f", "t", "OLD", 0, 2, 1), sync("g", "t", "G", 0, 9, 9)])
    ledger.append("offset_syncs", [sync("f", "t", "P", 1, 9, 9), sync("f", "u", "U", 0, 9, 9)])
    ledger.append("offset_syncs", [sync("f", "t", "S", 0, 2, 0)])
    ledger.append(
        "checkpoints", [row("checkpoints", cluster="east", group_id="g", topic="t", committed_offset=1)]
    )
    return ledger.at(ledger.latest())


def test_it_lands_where_a_commit_on_the_latest_incarnation_would(snapshot: MemorySnapshot) -> None:
    assert translate_offset(snapshot, "f", "t", 0, 4).to_pylist() == [
        {
            "flow": "f",
            "group_id": None,
            "source_topic": "t",
            "source_partition": 0,
            "committed_offset": 4,
            "target_topic": "f.t.T.0",
            "target_topic_id": "X",
            "target_partition": 0,
            "target_offset": 4,
            "status": "exact",
            "absence": None,
            "absent_since_ms": None,
            "metadata": None,
        }
    ]


def test_a_partition_without_a_map(snapshot: MemorySnapshot) -> None:
    (answer,) = translate_offset(snapshot, "f", "never", 0, 4).to_pylist()
    assert (answer["source_topic"], answer["target_offset"], answer["status"]) == ("never", None, "no_map")


def test_an_unknown_flow_lists_the_known(snapshot: MemorySnapshot) -> None:
    assert flows(snapshot) == ("f", "g")
    with pytest.raises(UsageError, match="no flow 'h'; known: f, g; nothing was translated"):
        translate_offset(snapshot, "h", "t", 0, 4)


@pytest.mark.parametrize(("partition", "offset"), [(-1, 0), (0, -1), (2**31, 0), (0, 2**63)])
def test_what_is_no_offset_is_refused(snapshot: MemorySnapshot, partition: int, offset: int) -> None:
    with pytest.raises(UsageError, match="nothing was translated"):
        translate_offset(snapshot, "f", "t", partition, offset)


def test_an_earlier_cut_of_a_memory_ledger(snapshot: MemorySnapshot) -> None:
    assert snapshot.versions["offset_syncs"] == 4
    ledger = MemoryLedger()
    ledger.append("writers", [claim("f", "east", 1)])
    before = ledger.latest()
    ledger.append("writers", [claim("g", "east", 1)])
    assert flows(ledger.at(before)) == ("f",)


def test_a_memory_ledger_takes_whole_rows_of_its_tables() -> None:
    with pytest.raises(InvalidValueError, match="nothing was appended"):
        MemoryLedger().append("nonsense", [])
    with pytest.raises(InvalidValueError, match="must name its columns"):
        MemoryLedger().append("writers", [{"flow": "f"}])
