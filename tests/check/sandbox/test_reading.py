"""What a reader asks of a broker that has only just come up."""

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ledger.sandbox import reading

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
