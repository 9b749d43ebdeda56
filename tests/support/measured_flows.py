"""Flows between two logs whose ends are read, in one ledger."""

import random
from collections import Counter

import pyarrow as pa

from ledger.facts.tables import TABLE_BY_NAME, Row
from ledger.store.delta_tables import arrow_schema
from ledger.store.sql import Relation
from tests.support.aged_lives import SYNCS, Instead
from tests.support.ledger_rows import row


class _Empty:
    def relation(self, table: str) -> Relation:
        return arrow_schema(TABLE_BY_NAME[table]).empty_table()


EMPTY = _Empty()


def _begin_or_end_a_transaction(stable: dict[str, int], source: str, end: int, chance: random.Random) -> None:
    """`stable`: by source where the transaction began that is open there."""
    if source in stable:
        if chance.random() < 0.2:
            del stable[source]
    elif chance.random() < 0.05:
        stable[source] = end


def measured(chance: random.Random) -> Instead:
    """Two flows between two logs, as they copy and stand still, while ends are read and transactions are open.

    Of some the way back has not begun, and of some it was settled at the end what the source no longer tells.
    """
    syncs: list[Row] = []
    ends: list[Row] = []
    signs: list[Row] = []
    written, copied = Counter({"east": 5, "west": 5}), Counter[str]()
    stable: dict[str, int] = {}
    other = {"east": "west", "west": "east"}
    names = {"east": "forth", "west": "back"}
    begun = chance.choice([("east",), ("east", "west"), ("east", "west")])
    at_ms = 1_000_000
    pace, copied_until = chance.choice([(60, 20), (60, 20), (1, 100), (1, 150)])
    for number in range(1, chance.randint(30, 150)):
        at_ms += pace * chance.choice([1_000, 5_000, 20_000, 60_000])
        for source in chance.sample(["east", "west"], 2):
            is_copied = source in begun and number < copied_until
            if chance.random() < 0.4:
                written[source] += chance.randint(0, 5)
            _begin_or_end_a_transaction(stable, source, written[source], chance)
            place = {
                "writer": f"flow:{names[source]}",
                "writer_epoch": 1,
                "round": number,
                "recorded_at_ms": at_ms + chance.choice([0, 500]),
                "flow": names[source],
                "source_cluster": source,
                "target_cluster": other[source],
                "source_topic": "t",
                "source_topic_id": f"t-{source}",
                "source_partition": 0,
                "target_topic": "t",
                "target_topic_id": f"t-{other[source]}",
                "target_partition": 0,
            }
            if chance.random() < 0.02 and copied[source] > 3:
                again, there = chance.randrange(copied[source]), written[other[source]]
                syncs.append(
                    row(
                        SYNCS,
                        **place,
                        source_start=again,
                        source_end=copied[source],
                        target_start=there,
                        target_end=there,
                        gaps=[],
                        kind="superseded",
                        cause="resync",
                    )
                )
                copied[source] = again
            elif is_copied and chance.random() < 0.6 and copied[source] < written[source]:
                start, end = copied[source], chance.randint(copied[source] + 1, written[source])
                there = written[other[source]]
                gaps = [{"source_start": start, "source_end": start + 1, "cause": "control"}]
                gaps = gaps if chance.random() < 0.3 else []
                records = end - start - len(gaps)
                syncs.append(
                    row(
                        SYNCS,
                        **place,
                        source_start=start,
                        source_end=end,
                        target_start=there,
                        target_end=there + records,
                        gaps=gaps,
                        kind="copied",
                        records=records,
                        bytes=records * 10,
                    )
                )
                copied[source] = end
                written[other[source]] += records
            if chance.random() < 0.5:
                ends.append(
                    row(
                        "high_watermarks",
                        writer=f"recorder:{source}",
                        writer_epoch=1,
                        round=number,
                        recorded_at_ms=at_ms + chance.choice([0, 700]),
                        cluster=source,
                        topic="t",
                        topic_id=f"t-{source}",
                        partition=0,
                        leader_epoch=0,
                        log_start=0,
                        last_stable=min(stable.get(source, written[source]), written[source]),
                        high_watermark=written[source],
                        read_at_ms=at_ms,
                        confirms_others=chance.choice([True, False]),
                    )
                )
            elif chance.random() < 0.3:
                signs.append(
                    row(
                        "writers",
                        writer=f"recorder:{source}",
                        writer_epoch=1,
                        round=number,
                        recorded_at_ms=at_ms,
                        event="alive",
                        source_cluster=source,
                    )
                )
    claims = [
        row(
            "writers",
            writer=f"flow:{name}",
            writer_epoch=1,
            event="claimed",
            flow=name,
            source_cluster=source,
            target_cluster=other[source],
        )
        for source, name in names.items()
    ]
    settled = []
    if chance.random() < 0.3 and copied["east"] < written["east"]:
        found = chance.randint(1, written["east"] - copied["east"])
        settlement = {
            "writer": "flow:forth",
            "writer_epoch": 2,
            "round": 1,
            "recorded_at_ms": at_ms,
            "flow": "forth",
        }
        settled.append(row("operations", **settlement, kind="settled", content="{}"))
        syncs.append(
            row(
                SYNCS,
                **settlement,
                source_cluster="east",
                target_cluster="west",
                source_topic="t",
                source_topic_id="t-east",
                source_partition=0,
                target_topic="t",
                target_topic_id="t-west",
                target_partition=0,
                source_start=copied["east"],
                source_end=copied["east"],
                target_start=written["west"],
                target_end=written["west"] + found,
                gaps=[],
                kind="unpaired",
                cause="lost_source",
                records=found,
            )
        )
    tables = {SYNCS: syncs, "high_watermarks": ends, "writers": [*claims, *signs], "operations": settled}
    return Instead(
        EMPTY,
        {
            name: pa.Table.from_pylist(rows, schema=arrow_schema(TABLE_BY_NAME[name]))
            for name, rows in tables.items()
        },
    )
