"""Audits of what came since a cut find what audits of all rows find, where the ledger was whole at the cut."""

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from ledger.facts.cuts import Cut
from ledger.store import answers, catalog
from ledger.store.snapshots import DeltaSnapshot
from tests.simulation.ledger.opened import OpenedSnapshot
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.histories import FLOW, SOURCE, TARGET, WEST, examples, random_history, sync_row
from tests.support.ledger_rows import row

OTHER_FLOW = "another"
AUDITS = [query.name for query in answers.audits_of(Cut("", ()))]
SEEDS = examples(check=[0, 1, 18, 21, 48], soak=[*range(1_000)])
"""Those of check have broken each audit's invariant once, and none; of each hundred a dozen break something."""

Row = dict[str, Any]


@dataclass
class Rounds:
    """The rows of a ledger by round, in the order of recording; `cut` of them were there when it was audited."""

    by_round: list[list[Row]]
    cut: int
    since: list[Row] = field(default_factory=list)

    @property
    def before(self) -> list[Row]:
        return [one for rows in self.by_round[: self.cut] for one in rows]

    def found(self) -> tuple[dict[str, int], dict[str, int]]:
        """What audits find then: of all rows, and of what came since the cut."""
        ledger = MemoryLedger()
        append(ledger, self.before)
        cut = snapshot(ledger).cut
        append(ledger, self.since)
        now = snapshot(ledger)
        return answers.audit_rows(now), answers.audit_rows(now, cut)


@cache
def is_whole(rows: str) -> bool:
    """Whether audits find nothing of these rows."""
    ledger = MemoryLedger()
    append(ledger, json.loads(rows))
    return not any(rows for name, rows in answers.audit_rows(snapshot(ledger)).items() if name in AUDITS)


def append(ledger: MemoryLedger, rows: Iterable[Row]) -> None:
    for one in rows:
        ledger.append("high_watermarks" if "high_watermark" in one else "offset_syncs", [one])


def snapshot(ledger: MemoryLedger) -> DeltaSnapshot:
    return OpenedSnapshot(ledger)  # type: ignore[return-value]


def rounds_of(chance: random.Random, flow: str) -> list[list[Row]]:
    history = random_history(chance)
    found: dict[tuple[int, int], list[Row]] = {}
    for recorded in history.recorded:
        place = recorded.writer_epoch, recorded.round
        found.setdefault(place, []).append(
            {**sync_row(0, recorded, flow=flow), "source_cluster": "east", "target_cluster": WEST}
        )
    return list(found.values())


def reading(chance: random.Random, rows: list[Row], number: int) -> Row:
    """What a recorder read of the end of the target, at about the time of the rows."""
    at_ms = rows[-1]["recorded_at_ms"] + chance.randint(-1, 2)
    end = max(one["target_end"] for one in rows) + chance.choice((0, 0, 3, 20))
    stamp = {"writer": "recorder:west", "writer_epoch": 1, "round": number, "recorded_at_ms": at_ms}
    topic = {"cluster": WEST, "topic": TARGET.topic, "topic_id": rows[-1]["target_topic_id"], "partition": 0}
    return row("high_watermarks", **stamp, **topic, read_at_ms=at_ms, high_watermark=max(end, 0))


def damaged(chance: random.Random, before: list[Row], since: list[Row]) -> list[Row]:
    """Rows as somebody might append them who does not keep the invariants."""
    rows = [dict(one) for one in since]
    syncs = [one for one in rows if "high_watermark" not in one]
    if not syncs:
        return rows
    wrong, by = chance.choice(syncs), chance.choice((-9, -2, -1, 1, 2, 9))
    losses = [one for one in syncs if one["kind"] not in ("copied", "adopted")]
    readings = [one for one in rows if "high_watermark" in one]
    match chance.randrange(7):
        case 0:
            rows.remove(wrong)
        case 1:
            wrong["source_start"] = max(wrong["source_start"] + by, 0)
        case 2:
            wrong["target_start"], wrong["target_end"] = wrong["target_start"] + by, wrong["target_end"] + by
        case 3 if losses:
            chance.choice(losses)["cause"] = None
        case 4 if before:
            again = chance.choice([one for one in before if "high_watermark" not in one])
            rows.append({**again, "recorded_at_ms": rows[-1]["recorded_at_ms"] + 1})
        case 5:
            rows = [one for one in rows if chance.random() < 0.7]
        case 6 if readings:
            chance.choice(readings)["high_watermark"] //= 2
        case _:
            pass
    return rows


def life(seed: int) -> Rounds:
    """One flow or two to one target, readings of its end, and a cut; what came since may be damaged."""
    chance = random.Random(seed)
    by_round = rounds_of(chance, FLOW)
    if chance.random() < 0.4:
        others = rounds_of(chance, OTHER_FLOW)
        by_round = sorted([*by_round, *others], key=lambda rows: rows[0]["recorded_at_ms"])
    by_round = [
        [*rows, *([reading(chance, rows, number)] if chance.random() < 0.4 else [])]
        for number, rows in enumerate(by_round, start=1)
    ]
    cut = chance.randint(1, len(by_round))
    since = [one for rows in by_round[cut:] for one in rows]
    made = Rounds(by_round, cut)
    made.since = damaged(chance, made.before, since) if chance.random() < 0.7 else since
    return made


def test_what_all_rows_show_what_came_since_shows() -> None:
    broken: Counter[str] = Counter()
    whole = 0
    for seed in SEEDS:
        made = life(seed)
        if not is_whole(json.dumps(made.before)):
            continue
        every, since = made.found()
        expected = {name for name, rows in every.items() if rows and name in since}
        assert {name for name, rows in since.items() if rows} == expected, f"seed {seed}"
        whole += not expected
        broken.update(expected)
    assert whole > len(SEEDS) // 5
    assert set(broken) >= set(AUDITS) - {"audit_l7_one_flow"}, broken


# -- One by one ------------------------------------------------------------------------------------


def copied(flow: str, number: int, source: tuple[int, int], target: int, **values: object) -> Row:
    start, end = source
    stamp = {"writer": f"flow:{flow}", "writer_epoch": 1, "round": number, "recorded_at_ms": 100 + number}
    ids = {"source_topic": SOURCE.topic, "source_topic_id": SOURCE.topic_id}
    ids |= {"target_topic": TARGET.topic, "target_topic_id": TARGET.topic_id}
    places = {
        "source_start": start,
        "source_end": end,
        "target_start": target,
        "target_end": target + end - start,
    }
    sides = {"flow": flow, "source_cluster": "east", "target_cluster": WEST, "records": end - start}
    return row("offset_syncs", **{**stamp, **ids, **places, **sides, "kind": "copied", **values})


def broken_since(before: list[Row], since: list[Row]) -> set[str]:
    assert is_whole(json.dumps(before))
    every, found = Rounds([before], 1, since).found()
    broken = {name for name, rows in found.items() if rows}
    assert {name for name, rows in every.items() if rows and name in found} == broken
    return broken


MANY = [copied(FLOW, number, (10 * number, 10 * number + 10), 10 * number) for number in range(1, 8)]
"""Copied long before; the last round alone tells nothing of the first ones."""


def test_claims_of_another_flow_from_before_are_found() -> None:
    elsewhere = {"source_topic": "other", "source_topic_id": "other-id"}
    taken = copied(OTHER_FLOW, 1, (0, 5), 22, **elsewhere)
    assert broken_since(MANY, [taken]) == {"audit_l3_once"}
    assert broken_since(MANY, [copied(OTHER_FLOW, 1, (0, 5), 90, **elsewhere)]) == set()


def test_records_that_another_flow_had_copied_long_before_are_found() -> None:
    assert broken_since(MANY, [copied(OTHER_FLOW, 1, (25, 27), 90)]) == {"audit_l7_one_flow"}


def test_a_hole_behind_what_was_taken_back_is_found() -> None:
    back = copied(
        FLOW, 8, (35, 80), 80, kind="superseded", cause="source_truncated", records=0, target_end=80
    )
    on = [copied(FLOW, 9, (35, 40), 80), copied(FLOW, 10, (40, 90), 85)]
    late = [copied(FLOW, 9, (37, 40), 80), copied(FLOW, 10, (40, 90), 83)]
    assert broken_since(MANY, [back, *on]) == set()
    assert broken_since(MANY, [back, *late]) == {"audit_l1_tiling"}
    assert broken_since([*MANY, back], on) == set()
    assert broken_since([*MANY, back], late) == {"audit_l1_tiling"}
    assert broken_since([*MANY, back, on[0]], on[1:]) == set()


def test_a_reading_that_denies_what_was_claimed_long_before_is_found() -> None:
    stamp = {
        "writer": "recorder:west",
        "writer_epoch": 1,
        "round": 1,
        "recorded_at_ms": 900,
        "read_at_ms": 900,
    }
    topic = {"cluster": WEST, "topic": TARGET.topic, "topic_id": TARGET.topic_id, "partition": 0}
    read = row("high_watermarks", **stamp, **topic, high_watermark=40)
    assert broken_since(MANY, [read]) == {"audit_l5_produce_before_record"}
    assert broken_since(MANY, [{**read, "high_watermark": 80}]) == set()


@pytest.mark.parametrize("table", ["offset_syncs", "high_watermarks"])
def test_what_one_that_was_shut_out_appended_late_is_found(table: str) -> None:
    """At a place that the cut counts, so nothing but its time says that it came since."""
    stamp = {
        "writer": "recorder:west",
        "writer_epoch": 1,
        "round": 1,
        "recorded_at_ms": 105,
        "read_at_ms": 105,
    }
    topic = {"cluster": WEST, "topic": TARGET.topic, "topic_id": TARGET.topic_id, "partition": 0}
    read = row("high_watermarks", **stamp, **topic, high_watermark=999)
    again = {**(MANY[2] if table == "offset_syncs" else read), "recorded_at_ms": 990}
    assert "audit_l4_append_once" in broken_since([*MANY, read], [again])


def test_of_what_is_missing_only_all_rows_tell() -> None:
    left_out = {query.name for query in catalog.queries().values() if query.is_audit} - set(AUDITS)
    assert left_out == {"audit_l8_nothing_missing"}
