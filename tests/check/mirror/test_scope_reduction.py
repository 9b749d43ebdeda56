"""A configuration that leaves out what was mirrored is refused, unless that is said to be meant."""

import json

import pytest

from ledger.errors import PreconditionError
from ledger.facts.operations import accepted_reductions
from ledger.facts.syncs import FlowPosition, Position
from ledger.mirror.progress import require_scope
from ledger.topics.naming import NamingKind, TopicNaming, TopicSelection
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.operation_logs import operators

PREFIX = TopicNaming(NamingKind.PREFIX, "east")


def position(topic: str, target: str, *, partition: int = 0, source_end: int = 10) -> FlowPosition:
    at = Position(source_offset=source_end, target_offset=10, next_sequence=10)
    return FlowPosition(topic, f"id-{topic}", partition, target, f"id-{target}", at)


MIRRORED = [position("a", "east.a"), position("a", "east.a", partition=1), position("b", "east.b")]


class Flow:
    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.operations = operators(self.ledger, Schedule())

    def start(
        self,
        *patterns: str,
        mirrored: list[FlowPosition] = MIRRORED,
        naming: TopicNaming = PREFIX,
        exclude: tuple[str, ...] = (),
        allow: bool = False,
    ) -> None:
        rows = self.ledger.at(self.ledger.latest()).relation("operations").to_pylist()
        selection = TopicSelection(patterns, exclude, naming=naming)
        require_scope(
            "f", selection, mirrored, accepted_reductions(rows), self.operations, allow_reduction=allow
        )

    def recorded(self) -> list[object]:
        rows = self.ledger.at(self.ledger.latest()).relation("operations").to_pylist()
        return [(row["kind"], json.loads(row["content"])["topics"]) for row in rows]


def test_what_is_still_mirrored_is_fine_and_more_is_fine() -> None:
    flow = Flow()
    flow.start("a", "b")
    flow.start(".*")
    flow.start("c", mirrored=[])
    assert flow.recorded() == []


@pytest.mark.parametrize(
    ("patterns", "exclude", "naming", "reason"),
    [
        (("a",), (), PREFIX, r"\n  b: not selected \(not_included\)$"),
        ((".*",), ("a", "b"), PREFIX, r"\n  a: not selected \(excluded\)\n  b: not selected \(excluded\)$"),
        (
            ("a", "b"),
            (),
            TopicNaming(NamingKind.IDENTITY),
            "\n  a: copied to east.a so far, to a from now on\n  b: .*$",
        ),
    ],
)
def test_what_would_be_left_out_is_listed(
    patterns: tuple[str, ...], exclude: tuple[str, ...], naming: TopicNaming, reason: str
) -> None:
    flow = Flow()
    with pytest.raises(
        PreconditionError, match=f"nothing was copied.*--allow-scope-reduction:{reason}"
    ) as told:
        flow.start(*patterns, exclude=exclude, naming=naming)
    assert told.value.exit_code == 5
    assert flow.recorded() == []


def test_a_reduction_that_is_meant_is_recorded_and_asked_for_once() -> None:
    flow = Flow()
    flow.start("b", allow=True)
    assert flow.recorded() == [("scope_reduced", {"a": 20})]
    flow.start("b")
    with pytest.raises(PreconditionError, match="\n  b: not selected"):
        flow.start("nothing")
    assert len(flow.recorded()) == 1


def test_what_was_mirrored_again_since_has_to_be_accepted_anew() -> None:
    flow = Flow()
    flow.start("b", allow=True)
    further = [*MIRRORED[:1], position("a", "east.a", partition=1, source_end=11), MIRRORED[2]]
    with pytest.raises(PreconditionError, match="\n  a: not selected"):
        flow.start("b", mirrored=further)
    flow.start("b", mirrored=further, allow=True)
    flow.start("b", mirrored=further)
