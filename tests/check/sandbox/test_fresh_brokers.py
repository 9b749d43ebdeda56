"""A fresh sandbox: its configuration, and what a reader asks of a broker that has only just come up."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.sandbox import reading
from ledger.sandbox.configuration import render_configuration
from ledger.sandbox.state import SandboxCluster


def configured(folder: Path, *aliases: str) -> MirrorConfig:
    clusters = {alias: SandboxCluster(alias, f"{alias}:9092", f"{alias}-id", ()) for alias in aliases}
    file = folder / "mirror-ledger.toml"
    file.write_text(render_configuration(folder, clusters), encoding="utf-8")
    return load_config(file)


def test_two_clusters_are_opposite_with_the_same_names(tmp_path: Path) -> None:
    config = configured(tmp_path, "east", "west")
    assert {flow.name: flow.opposite for flow in config.enabled_flows} == {
        "east-to-west": "west-to-east",
        "west-to-east": "east-to-west",
    }
    assert config.flow("west-to-east").naming.target_name("orders") == "orders"


def test_more_clusters_get_prefixed_copies_of_the_first(tmp_path: Path) -> None:
    config = configured(tmp_path, "east", "west", "north")
    assert {flow.name: flow.naming.target_name("orders") for flow in config.enabled_flows} == {
        "east-to-west": "east.orders",
        "east-to-north": "east.orders",
    }


UNKNOWN_LEADER_EPOCH, NOT_ALLOWED = 75, 29


class Client:
    """Answers where a partition ends, after some errors."""

    def __init__(self, errors: list[int]) -> None:
        self._errors = errors

    def list_topics(self, **_: Any) -> Any:
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions=[0])})

    def list_offsets(self, asked: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        answer: Future[Any] = Future()
        if self._errors:
            answer.set_exception(KafkaException(KafkaError(self._errors.pop())))
        else:
            answer.set_result(SimpleNamespace(offset=7))
        return dict.fromkeys(asked, answer)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[int]], None]:
    def make(errors: list[int]) -> None:
        monkeypatch.setattr(reading, "AdminClient", lambda _: Client(errors))

    return make


def test_a_leader_that_has_not_taken_up_its_epoch_is_asked_again(
    failing: Callable[[list[int]], None],
) -> None:
    errors = [UNKNOWN_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH]
    failing(errors)
    assert reading.ends("127.0.0.1:1", ["t"]) == {("t", 0): 7}
    assert errors == []


def test_any_other_refusal_is_raised_at_once(failing: Callable[[list[int]], None]) -> None:
    errors = [UNKNOWN_LEADER_EPOCH, NOT_ALLOWED]
    failing(errors)
    with pytest.raises(KafkaException):
        reading.ends("127.0.0.1:1", ["t"])
    assert errors == [UNKNOWN_LEADER_EPOCH]
