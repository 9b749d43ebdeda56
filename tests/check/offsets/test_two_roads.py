"""The map of one flow, and the maps of all flows between two clusters, lead a group to the same record.

Two queries state where a group continues: `offset_translation` by one flow's map, `group_translation` by all that is
known between the clusters. Neither passes a copy that the group has not read, and where they differ the logs say why:
what lies behind the map's place was read, or is of others; and what lies in front of it was not, or is of others.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.facts.tables import OFFSET_SYNCS
from ledger.store import catalog
from ledger.store.sql import run_query
from tests.simulation.ledger.tables import MemorySnapshot
from tests.support.group_cases import lived
from tests.support.group_lives import Life
from tests.support.group_logs import WORLDS, Group
from tests.support.group_tables import names_of, snapshot_of
from tests.support.histories import examples

HERE, THERE, FLOW = "east", "west", "east-to-west"
WITH_THE_FLOW = sorted(world for world, ways in WORLDS.items() if (HERE, THERE) in ways and world != "relay")
"""In the others the flow does not copy what applications write here, or is called otherwise."""
LIVES = st.lists(st.tuples(st.integers(0, 2**32), st.sampled_from(WITH_THE_FLOW)), min_size=16, max_size=16)
PRINTED = settings(print_blob=True, deadline=None, max_examples=examples(check=2, soak=40))


@dataclass(frozen=True)
class Both:
    """What both roads say of a group that is here."""

    life: Life
    group: Group
    by_flow: dict[str, Any]
    between: dict[str, Any]

    @property
    def read(self) -> frozenset[int]:
        """What the group had read when its last commit was seen."""
        return [seen for seen in self.group.sides[HERE].seen if seen.commit.absence is None][-1].read

    def require_judged(self) -> bool:
        """By the logs; whether both roads lead to one offset. Nothing is judged where one of them does not answer."""
        by_map, between = self.by_flow["target_offset"], self.between["target_offset"]
        for offset in (by_map, between):
            assert offset is None or not self._passed(offset), (self.by_flow, self.between)
        if by_map is None or between is None:
            return False
        first, last = sorted((by_map, between))
        apart = [one for one in self.life.logs[THERE].records[first:last] if one.number is not None]
        if between > by_map:
            is_of_others = [one.writer != FLOW for one in apart if one.number not in self.read]
            assert all(is_of_others), (self.by_flow, self.between)
        elif between < by_map:
            assert any(one.number not in self.read or one.writer != FLOW for one in apart), (
                self.by_flow,
                self.between,
            )
        return bool(by_map == between)

    def _passed(self, offset: int) -> set[int]:
        """Records of the source that it has not read, and whose last copy by the flow lies below the offset.

        What the source took back was copied as well, and is no record of it any more.
        """
        there, unread = self.life.logs[THERE], self.life.logs[HERE].numbers(0) - self.read
        last = {
            one.number: at
            for at, one in enumerate(there.records)
            if at >= there.log_start and one.writer == FLOW and one.number is not None
        }
        return {number for number, at in last.items() if at < offset and number in unread}


def without_epochs(at: MemorySnapshot) -> MemorySnapshot:
    """As of brokers that tell no leader epochs with what is fetched: no row of a map has one."""
    syncs = at.relation(OFFSET_SYNCS.name)
    place = syncs.schema.get_field_index("source_leader_epoch")
    nulls = pa.nulls(len(syncs), syncs.schema.field(place).type)
    return replace(
        at, tables={**at.tables, OFFSET_SYNCS.name: syncs.set_column(place, syncs.schema.field(place), nulls)}
    )


def asked(lives: list[Life], *, have_epochs: bool) -> Iterator[Both]:
    """Not of a group that was put back there: its commit here does not say that it wants to read again."""
    at = snapshot_of(lives) if have_epochs else without_epochs(snapshot_of(lives))
    by_flow = _by_place(run_query(catalog.query("offset_translation"), {"flow": FLOW}, at).to_pylist())
    sides = {"from_cluster": HERE, "to_cluster": THERE, "flow": FLOW}
    between = _by_place(run_query(catalog.query("group_translation"), sides, at).to_pylist())
    for names, life in zip(names_of(lives), lives, strict=True):
        for group in life.groups:
            place = group.name, names.topic, names.partition
            is_back = any(topic_id.startswith(THERE) for topic_id in group.put_back_on)
            if place in by_flow and place in between and life.maps_are_told() and not is_back:
                yield Both(life, group, by_flow[place], between[place])


def _by_place(rows: list[dict[str, Any]]) -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(row["group_id"], row["source_topic"], row["source_partition"]): row for row in rows}


def judged(lives: list[Life], *, have_epochs: bool = True) -> Counter[tuple[str, bool]]:
    """By status between clusters, and whether both led to one offset, how often that was so."""
    return Counter(
        (str(one.between["status"]), one.require_judged()) for one in asked(lives, have_epochs=have_epochs)
    )


@PRINTED
@given(LIVES, st.booleans())
def test_both_lead_to_the_same_record(worlds: list[tuple[int, str]], have_epochs: bool) -> None:
    judged([lived(seed, world) for seed, world in worlds], have_epochs=have_epochs)


def test_lives_have_what_is_compared() -> None:
    found = judged([lived(seed, world) for seed in range(12) for world in WITH_THE_FLOW])
    same = Counter({status: number for (status, is_same), number in found.items() if is_same})
    assert sum(same.values()) >= 12, found
    assert same["exact"] >= 4, found
    assert same.keys() >= {"exact", "at_end", "ahead"}, found
