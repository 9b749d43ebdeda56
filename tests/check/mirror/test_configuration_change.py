"""A changed configuration is recorded once, with what changed, and warned of; the first one is only recorded."""

import hashlib
import json
import logging
from pathlib import Path

import pytest

from ledger.config.values import FlowConfig
from ledger.mirror.progress import ConfigurationFile, config_hash, configuration_of, record_change
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.config_texts import BASE, FLOW_TEXT, load
from tests.support.fakes import FakeClock
from tests.support.operation_logs import operators

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
