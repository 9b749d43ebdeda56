"""What was decided of extras, as queries read it."""

import json
import os
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from ledger.errors import InvalidValueError
from ledger.facts.extras import STAY_LOCAL, DecidedExtras, ExtraRange, ExtrasDecided, ExtrasPolicy
from ledger.facts.operations import OperationContent
from ledger.store import sql
from tests.simulation.ledger.tables import MemoryLedger
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


# -- A ledger in memory ----------------------------------------------------------------------------


def test_an_earlier_cut_of_a_memory_ledger() -> None:
    ledger = MemoryLedger()
    ledger.append("writers", [row("writers", flow="f", event="claimed")])
    before = ledger.latest()
    ledger.append("writers", [row("writers", flow="g", event="claimed")])
    assert sql.flows(ledger.at(before)) == ("f",)


def test_a_memory_ledger_takes_whole_rows_of_its_tables() -> None:
    with pytest.raises(InvalidValueError, match="nothing was appended"):
        MemoryLedger().append("nonsense", [])
    with pytest.raises(InvalidValueError, match="must name its columns"):
        MemoryLedger().append("writers", [{"flow": "f"}])
