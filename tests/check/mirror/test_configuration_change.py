"""A changed configuration is recorded once; one that leaves out what was mirrored is refused unless it is meant."""

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from ledger.config.values import FlowConfig
from ledger.errors import ConfigurationError, PreconditionError
from ledger.facts.operations import accepted_reductions
from ledger.facts.syncs import FlowPosition, Position
from ledger.mirror.progress import (
    ConfigurationFile,
    config_hash,
    configuration_of,
    record_change,
    require_scope,
)
from ledger.topics.naming import NamingKind, TopicNaming, TopicSelection
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.config_files import BASE, FLOW_TEXT, load
from tests.support.fakes import FakeClock
from tests.support.ledgers import operators

# -- Recorded --------------------------------------------------------------------------------------

FLOW = FlowConfig(name="f", source="a", target="b", topics=("t",))
CHANGED = FLOW.model_copy(update={"tasks": 3, "prefix": "x"})


def recorded(
    flow: FlowConfig, last_hash: str | None, last_configuration: dict[str, object] | None
) -> list[dict[str, object]]:
    ledger = MemoryLedger()
    record_change(
        flow,
        operators(ledger, FakeClock()),
        last_hash=last_hash,
        last_configuration=last_configuration,
    )
    rows = ledger.at(ledger.latest()).relation("operations").to_pylist()
    assert all(row["kind"] == "configuration_changed" and row["flow"] == "f" for row in rows)
    return [json.loads(row["content"]) for row in rows]


def test_the_same_configuration_is_no_change(caplog: pytest.LogCaptureFixture) -> None:
    again = FlowConfig(name="f", topics=("t",), target="b", source="a")
    assert recorded(again, config_hash(FLOW), None) == []
    assert caplog.records == []


def test_a_change_names_its_keys(caplog: pytest.LogCaptureFixture) -> None:
    [content] = recorded(CHANGED, config_hash(FLOW), configuration_of(FLOW))
    assert content == {
        "old_hash": config_hash(FLOW),
        "new_hash": config_hash(CHANGED),
        "changed": ["prefix", "tasks"],
        "configuration": configuration_of(CHANGED),
    }
    [warning] = caplog.records
    assert warning.levelno == logging.WARNING
    assert warning.getMessage().endswith("prefix, tasks")


def test_a_key_that_only_one_of_them_has_is_changed() -> None:
    old = {**configuration_of(FLOW), "colour": None}
    del old["tasks"]
    [content] = recorded(FLOW, "another", old)
    assert content["changed"] == ["colour", "tasks"]


def test_a_change_from_what_the_ledger_does_not_hold(caplog: pytest.LogCaptureFixture) -> None:
    [content] = recorded(FLOW, "another", None)
    assert content["changed"] is None
    assert caplog.records[0].getMessage().endswith("keys unknown")


def test_the_first_configuration_is_recorded_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    [content] = recorded(FLOW, None, None)
    assert (content["old_hash"], content["changed"]) == (None, None)
    assert caplog.records == []


def test_the_hash_can_be_computed_again_from_the_row() -> None:
    [content] = recorded(FLOW, None, None)
    text = json.dumps(content["configuration"], sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == content["new_hash"]


ELSEWHERE = FLOW_TEXT.replace('topics = ["orders"]', 'topics = ["orders", "users"]')
SAID = {
    BASE + FLOW_TEXT: "",
    BASE + ELSEWHERE: "flows.east-to-west.topics is another",
    BASE + FLOW_TEXT + "enabled = false": "flows.east-to-west is disabled",
    BASE + FLOW_TEXT.replace("[flows.east-to-west]", "[flows.other]"): "flows.east-to-west is gone",
    BASE.replace("west:9092", "west:9093") + FLOW_TEXT: "clusters.west is another",
    BASE.replace('"ledger"', '"elsewhere"') + FLOW_TEXT: "ledger is another",
    BASE + "[clusters.north]\nbootstrap_servers = 'north:1'" + FLOW_TEXT: "",
    BASE + FLOW_TEXT + 'sauce = "x"': "flows.east-to-west.sauce: unknown key",
}


@pytest.mark.parametrize("text", SAID, ids=lambda text: SAID[text] or "the same")
def test_a_file_that_changes_while_a_driver_runs_is_noticed(tmp_path: Path, text: str) -> None:
    config = load(tmp_path, BASE + FLOW_TEXT)
    watched = ConfigurationFile(config, "east-to-west")
    assert watched.troubles() == {}
    Path(config.file).write_text(text + "\n")
    assert watched.troubles() == ({config.file: SAID[text]} if SAID[text] else {})
    Path(config.file).write_text(BASE + FLOW_TEXT)
    assert watched.troubles() == {}


def test_a_file_that_is_gone_is_noticed(tmp_path: Path) -> None:
    config = load(tmp_path, BASE + FLOW_TEXT)
    Path(config.file).unlink()
    assert ConfigurationFile(config, "east-to-west").troubles() == {
        config.file: "cannot be read: No such file or directory"
    }


# -- Read again ------------------------------------------------------------------------------------


def read_again(
    folder: Path, text: str, mirrored: Sequence[FlowPosition] = ()
) -> tuple[str, ConfigurationFile]:
    """What comes of it where the file says `text` by now."""
    file = ConfigurationFile(load(folder, BASE + FLOW_TEXT), "east-to-west")
    Path(file.config.file).write_text(text + "\n")
    return file.read_again(mirrored, {}), file


def test_what_a_running_driver_can_follow_is_accepted(tmp_path: Path) -> None:
    said, file = read_again(tmp_path, BASE + ELSEWHERE + "round_seconds = 2.5")
    assert (
        said
        == "from now on: flows.east-to-west.round_seconds is another; flows.east-to-west.topics is another"
    )
    assert file.accepted is not None
    flow = file.accepted.flow("east-to-west")
    assert (flow.topics, flow.round_seconds) == (("orders", "users"), 2.5)


def test_what_waits_for_a_start_is_said_and_left_as_it_was(tmp_path: Path) -> None:
    moved = BASE.replace("west:9092", "west:9093") + ELSEWHERE + "tasks = 3"
    said, file = read_again(tmp_path, moved)
    assert said == (
        "from now on: flows.east-to-west.topics is another. Not before it is started again: "
        "flows.east-to-west.tasks is another; clusters.west is another"
    )
    assert file.accepted is not None
    assert file.accepted.flow("east-to-west").tasks == file.config.flow("east-to-west").tasks
    assert file.accepted.cluster("west") == file.config.cluster("west")


@pytest.mark.parametrize("text", [BASE + FLOW_TEXT, BASE + FLOW_TEXT + "tasks = 3"])
def test_where_nothing_can_be_followed_the_driver_continues_as_it_is(tmp_path: Path, text: str) -> None:
    said, file = read_again(tmp_path, text)
    assert said.startswith("nothing that a running driver takes over has changed")
    assert ("tasks" in said) == ("tasks" in text)
    assert file.accepted is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BASE + FLOW_TEXT + 'sauce = "x"', "sauce: unknown key"),
        (
            BASE + FLOW_TEXT + "enabled = false",
            "is disabled; the driver continues as before. `mirror-ledger stop east",
        ),
        (
            BASE + FLOW_TEXT.replace("[flows.east-to-west]", "[flows.other]"),
            "is gone; the driver continues as before",
        ),
        (BASE + FLOW_TEXT.replace('"orders"', '"users"'), "orders: not selected.*--allow-scope-reduction"),
    ],
)
def test_what_speaks_against_it_is_said_and_nothing_changes(tmp_path: Path, text: str, why: str) -> None:
    file = ConfigurationFile(load(tmp_path, BASE + FLOW_TEXT), "east-to-west")
    Path(file.config.file).write_text(text + "\n")
    with pytest.raises((ConfigurationError, PreconditionError), match=why):
        file.read_again([position("orders", "east.orders")], {})
    assert file.accepted is None


def test_a_run_until_caught_up_keeps_what_it_began_with(tmp_path: Path) -> None:
    file = ConfigurationFile(load(tmp_path, BASE + FLOW_TEXT), "east-to-west", refusal="until caught up")
    Path(file.config.file).write_text(BASE + ELSEWHERE + "\n")
    with pytest.raises(PreconditionError, match=r"^until caught up; the driver continues as before$"):
        file.read_again([], {})


# -- What it leaves out ----------------------------------------------------------------------------

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
