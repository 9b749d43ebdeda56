"""What a place of a drill comes to, by what is read behind it and what is unread at the source."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ledger.adopt.reading import LogRecord
from ledger.changeover import drilling
from ledger.changeover.drilling import (
    Drill,
    PlaceResult,
    ReadThere,
    UnreadHere,
    drilled_answers,
    judged,
    remove_remains,
    require_free,
    tried_and_removed,
    unread_from,
)
from ledger.changeover.plans import ChangeoverKind, FenceChoice
from ledger.changeover.scope import NotCopied
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.drills import (
    Drilled,
    LastDrill,
    drill_group,
    drill_metadata,
    is_of_drill,
    last_drill,
)
from ledger.facts.ways import Direction
from ledger.kafka.cluster import CommitsAnswer, GroupListing, PartitionEnds
from tests.support.fakes import FakeCluster
from tests.support.ledger_rows import row
from tests.support.seen_pairs import SEEN, flow, loss, made, place

ANSWER = {"repeated": 0, "others": 0, "status": "exact", "committed_offset": 40}


def record(number: int, **changed: Any) -> LogRecord:
    return LogRecord(**{"offset": number, "timestamp": number, "content": b"%d" % number, **changed})


def there(*numbers: int, is_all: bool = True) -> ReadThere:
    return ReadThere([record(number) for number in numbers], is_all)


@pytest.mark.parametrize(
    ("answer", "read", "here", "copied_to", "expected"),
    [
        ({}, there(40, 41), UnreadHere(record(40)), 50, PlaceResult.SAME),
        ({}, there(), UnreadHere(), 50, PlaceResult.AT_END),
        ({}, there(), UnreadHere(record(50)), 50, PlaceResult.NOT_COPIED),
        ({}, there(), UnreadHere(record(49)), 50, PlaceResult.MISSING),
        ({}, there(41, 42), UnreadHere(record(40)), 50, PlaceResult.MISSING),
        ({}, there(41, 42, is_all=False), UnreadHere(record(40)), 50, PlaceResult.NOT_COMPARED),
        ({}, there(41, 42), UnreadHere(record(40)), None, PlaceResult.NOT_COMPARED),
        ({}, there(40), UnreadHere(record(40)), None, PlaceResult.SAME),
        ({}, there(39, 40), UnreadHere(record(40)), 50, PlaceResult.OTHER_RECORD),
        ({"repeated": 1}, there(39, 40), UnreadHere(record(40)), 50, PlaceResult.REPEATED),
        ({"repeated": 1}, there(38, 39, 40), UnreadHere(record(40)), 50, PlaceResult.OTHER_RECORD),
        ({"repeated": 1, "others": 1}, there(38, 39, 40), UnreadHere(record(40)), 50, PlaceResult.REPEATED),
        ({"repeated": 1}, there(38, 39), UnreadHere(), 50, PlaceResult.OTHER_RECORD),
        ({"repeated": None}, there(39, 40), UnreadHere(record(40)), 50, PlaceResult.REPEATED),
        ({"others": 1}, there(39, 40), UnreadHere(record(40)), 50, PlaceResult.REPEATED),
        ({"status": "ahead"}, there(39, 40), UnreadHere(record(40)), 39, PlaceResult.REPEATED),
        ({"committed_offset": None}, there(39, 40), UnreadHere(record(40)), 50, PlaceResult.REPEATED),
        ({}, there(39), UnreadHere(), 50, PlaceResult.OTHER_RECORD),
        ({"repeated": 1}, there(39), UnreadHere(), 50, PlaceResult.REPEATED),
        ({}, there(40), UnreadHere(why="it does not answer"), 50, PlaceResult.NOT_COMPARED),
    ],
)
def test_results(
    answer: dict[str, Any], read: ReadThere, here: UnreadHere, copied_to: int | None, expected: PlaceResult
) -> None:
    assert judged({**ANSWER, **answer}, read, here, copied_to=copied_to) is expected


def test_a_copy_has_the_same_time_unless_its_log_stamps_its_own() -> None:
    here = UnreadHere(record(40))
    for stamped, expected in ((False, PlaceResult.MISSING), (True, PlaceResult.SAME)):
        read = ReadThere([record(40, timestamp=7, stamped=stamped)], True)
        assert judged(ANSWER, read, here, copied_to=50) is expected
    other = ReadThere([record(40, content=b"other", stamped=True)], True)
    assert judged(ANSWER, other, here, copied_to=50) is PlaceResult.MISSING


ENDS = PartitionEnds(10, 45, 50, 1)


def asked_from(
    commit: int | None, ends: PartitionEnds | None = ENDS
) -> tuple[UnreadHere, list[tuple[int, int]]]:
    asked: list[tuple[int, int]] = []

    def read(start: int, end: int) -> Iterator[LogRecord]:
        asked.append((start, end))
        return iter([record(start), record(start + 1)])

    return unread_from(commit, ends, read), asked


def test_unread_is_what_a_committed_reader_is_given_from_the_commit_on() -> None:
    assert asked_from(40) == (UnreadHere(record(40)), [(40, 45)])
    assert asked_from(None) == (UnreadHere(record(10)), [(10, 45)])


@pytest.mark.parametrize("commit", [9, 51])
def test_what_the_source_has_no_more_is_not_compared(commit: int) -> None:
    found, asked = asked_from(commit)
    assert (found.why, asked) == (f"committed was offset {commit}, the source has 10 to 50", [])


def test_a_source_that_fails_is_not_compared() -> None:
    def read(_start: int, _end: int) -> Iterator[LogRecord]:
        raise ClusterUnavailableError("it is silent")

    assert unread_from(40, ENDS, read) == UnreadHere(why="it is silent")
    assert asked_from(40, None)[0].why == "its partition has no leader there"


def test_only_whole_groups_with_places_are_tried() -> None:
    places = [
        place("half", status="no_map", target_offset=None),
        place("half", source_partition=1),
        place("whole"),
        place("shared", group_type="share"),
    ]
    found = drilled_answers(made(replace(SEEN, places=places), ChangeoverKind.FAILOVER))
    assert [row["group_id"] for row in found] == ["whole"]


PLACES = {("billing", "orders", 0): PlaceResult.SAME, ("billing", "orders", 1): PlaceResult.AT_END}
GONE = NotCopied(flow="side", source_topic="refunds", topic="refunds", beyond=503)


@pytest.mark.parametrize(
    ("seen", "results", "verdict", "words"),
    [
        ({}, {}, "passed", None),
        ({"not_copied": (GONE,)}, {}, "incomplete", "blocked: not_copied_any_more: .*: 503 records known"),
        ({"flows": [flow(unmirrored=("payments",))]}, {}, "incomplete", "blocked: not_mirrored: .*payments"),
        ({"flows": [flow(unrecorded=(("orders", 0),))]}, {}, "incomplete", "blocked: unrecorded_copies: "),
        ({"shut_out_problem": "no right"}, {}, "incomplete", "blocked: mirror_not_shut_out: .*no right"),
        ({"losses": [loss(7, 3.0)]}, {}, "incomplete", "a failover would lose records: 7 records not copied"),
        ({"losses": [loss(None, None)]}, {}, "incomplete", "a failover would lose records: .* unknown"),
        ({"places": [place(repeated=None)]}, {}, "incomplete", "nobody knows how many records groups would"),
        ({}, {"orders": PlaceResult.NOT_COPIED}, "incomplete", "what is unread at 1 place is at east alone"),
        ({"shut_out_problem": "no right"}, {"orders": PlaceResult.MISSING}, "failed", "blocked: mirror_not"),
    ],
)
def test_a_drill_passes_where_nothing_blocks_the_failover_and_nothing_is_lost(
    seen: dict[str, Any], results: dict[str, PlaceResult], verdict: str, words: str | None
) -> None:
    plan = made(
        replace(SEEN, **seen),
        ChangeoverKind.FAILOVER,
        fence=FenceChoice.NONE,
        unproven="a",
        source_given_up=True,
    )
    found = {("late", topic, 0): result for topic, result in results.items()}
    content = Drill(plan, "o", results={**PLACES, **found}).content
    assert content.verdict == verdict
    assert [bool(re.search(words or "", one)) for one in content.problems] == [True] * (words is not None)


# -- Groups at the target --------------------------------------------------------------------------


@dataclass
class West(FakeCluster):
    """`metadata`: by group what its commits say; `kept`: groups that it does not delete."""

    metadata: dict[str, str] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()

    def add(self, group: str, metadata: str, state: str = "Empty") -> None:
        self.committed[group, "orders", 0] = 5
        self.metadata[group] = metadata
        self.listings[group] = GroupListing(group, "classic", state, "consumer")

    def group_commits(self, groups: Sequence[GroupListing], *, topic_ids: Mapping[str, str]) -> CommitsAnswer:
        found = super().group_commits(groups, topic_ids=topic_ids)
        return CommitsAnswer(
            [replace(one, metadata=self.metadata[one.group_id]) for one in found.read], found.refused
        )

    def delete_groups(self, groups: Sequence[str]) -> dict[str, str]:
        for group in set(groups) - self.kept:
            del self.committed[group, "orders", 0]
            del self.listings[group]
        return dict.fromkeys(self.kept & set(groups), "GroupAuthorizationFailedError")


@pytest.fixture
def west() -> West:
    """With a group that a drill has left, and others whose names begin so."""
    found = West(alias="west")
    found.add("drill-billing", drill_metadata("o"))
    found.add("drill-busy", drill_metadata("o"), "Stable")
    found.add("drill-press", "")
    found.add("billing", drill_metadata("o"))
    return found


def test_only_what_a_drill_has_left_is_removed(west: West) -> None:
    assert remove_remains(west) == ["drill-billing"]
    assert set(west.listings) == {"drill-busy", "drill-press", "billing"}
    assert remove_remains(west) == []


def test_what_cannot_be_removed_is_said(west: West) -> None:
    west.kept = frozenset({"drill-billing"})
    with pytest.raises(PreconditionError, match="'drill-billing': GroupAuthorizationFailedError"):
        remove_remains(west)


def test_a_group_of_others_is_not_touched(west: West) -> None:
    require_free(west, ["drill-other"])
    with pytest.raises(
        PreconditionError, match="has 'drill-press', which no drill has made; nothing was committed"
    ):
        require_free(west, ["drill-other", "drill-press"])


@pytest.mark.parametrize("died", [ClusterUnavailableError("west is silent"), KeyboardInterrupt()])
def test_what_is_committed_is_removed_whatever_it_ends_by(
    west: West, monkeypatch: pytest.MonkeyPatch, died: BaseException
) -> None:
    def commit(*_asked: object) -> None:
        west.add("drill-audit", drill_metadata("p"))

    def read(*_asked: object) -> None:
        assert "drill-audit" in west.listings
        raise died

    monkeypatch.setattr(drilling, "_commit", commit)
    monkeypatch.setattr(drilling, "_read", read)
    done = Drill(made(SEEN, ChangeoverKind.FAILOVER), "p")
    asked: Any = None
    with pytest.raises(type(died)):
        tried_and_removed(asked, west, done, asked, [place("audit")])
    assert "drill-audit" not in west.listings
    assert done.problems == [str(died)] * isinstance(died, ClusterUnavailableError)


@pytest.mark.parametrize(
    ("group", "metadata", "has_members", "expected"),
    [
        (drill_group("billing"), [drill_metadata("o")], False, True),
        (drill_group("billing"), [drill_metadata("o"), "mine"], False, False),
        (drill_group("billing"), [None], False, False),
        (drill_group("billing"), [], False, False),
        (drill_group("billing"), [drill_metadata("o")], True, False),
        (drill_group("billing"), [drill_metadata("o")], None, False),
        ("billing", [drill_metadata("o")], False, False),
    ],
)
def test_a_name_alone_makes_no_group_one_of_a_drill(
    group: str, metadata: list[str | None], has_members: bool | None, expected: bool
) -> None:
    assert is_of_drill(group, metadata, has_members=has_members) is expected


def test_the_last_drill_of_a_way_is_known() -> None:
    keys = dict.fromkeys(("records_lost", "records_at_least", "records_at_most", "seconds_lost"))
    more: dict[str, Any] = {
        "commit_seconds": None,
        "read_seconds": None,
        "apply_seconds": 1.0,
        "cut": "c",
        "removed": [],
    }
    many: dict[str, Any] = {"groups": {}, "stuck": {}, "problems": [], **keys, **more}
    ways = (("east", "west", "failed"), ("east", "west", "passed"), ("west", "east", "incomplete"))
    rows = [
        row(
            "operations",
            kind="drilled",
            content=json.dumps(Drilled(from_cluster=here, to_cluster=to, verdict=verdict, **many).content()),
            recorded_at_ms=at_ms,
        )
        for at_ms, (here, to, verdict) in enumerate(ways, start=1)
    ]
    assert last_drill(rows, Direction("east", "west")) == LastDrill(at_ms=2, verdict="passed")
    assert last_drill(rows, Direction("east", "north")) is None
