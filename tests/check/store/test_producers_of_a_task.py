"""Who is a mirror: what is asked of the ledger, when, and what is remembered of the answers."""

from dataclasses import dataclass, field

import pytest

from ledger.errors import LedgerUnavailableError
from ledger.store import producers
from ledger.store.producers import NO_PRODUCER_ID, CachedMirrorProducers, no_mirror_producers


@dataclass
class Ledger:
    """Recorded producer ids, and how often somebody asked."""

    ids: set[int] = field(default_factory=set)
    asked: int = 0
    is_down: bool = False

    def recorded(self) -> frozenset[int]:
        self.asked += 1
        if self.is_down:
            raise LedgerUnavailableError("down")
        return frozenset(self.ids)


def test_an_unknown_id_is_asked_for_once_whatever_the_answer() -> None:
    ledger = Ledger({40})
    directory = CachedMirrorProducers(ledger.recorded)
    assert [directory.is_mirror(40) for _ in range(3)] == [True] * 3
    assert [directory.is_mirror(7) for _ in range(3)] == [False] * 3
    assert ledger.asked == 2


def test_a_mirror_that_was_recorded_after_other_answers_is_found_when_it_is_met() -> None:
    ledger = Ledger({40})
    directory = CachedMirrorProducers(ledger.recorded)
    assert not directory.is_mirror(7)
    ledger.ids.add(41)
    assert directory.is_mirror(41)
    assert not directory.is_mirror(7)


def test_all_mirrors_of_one_look_are_remembered() -> None:
    ledger = Ledger({40, 41, 42})
    directory = CachedMirrorProducers(ledger.recorded)
    assert all(directory.is_mirror(producer_id) for producer_id in (40, 41, 42))
    assert ledger.asked == 1


def test_a_producer_without_an_id_is_an_application_and_nobody_is_asked() -> None:
    ledger = Ledger(is_down=True)
    assert not CachedMirrorProducers(ledger.recorded).is_mirror(NO_PRODUCER_ID)
    assert ledger.asked == 0


def test_a_ledger_that_does_not_answer_is_no_answer_and_is_asked_again() -> None:
    ledger = Ledger({40}, is_down=True)
    directory = CachedMirrorProducers(ledger.recorded)
    for _ in range(2):
        with pytest.raises(LedgerUnavailableError):
            directory.is_mirror(40)
    ledger.is_down = False
    assert directory.is_mirror(40)
    ledger.is_down = True
    assert directory.is_mirror(40), "what is known needs no ledger"


def test_memory_is_bounded_and_forgetting_costs_a_question_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "_MAXIMUM_APPLICATIONS", 3)
    ledger = Ledger({40})
    directory = CachedMirrorProducers(ledger.recorded)
    assert not any(directory.is_mirror(producer_id) for producer_id in range(10))
    asked = ledger.asked
    assert not directory.is_mirror(0)
    assert ledger.asked == asked + 1
    assert not directory.is_mirror(NO_PRODUCER_ID)
    assert ledger.asked == asked + 1


def test_a_relaying_flow_copies_whatever_it_meets() -> None:
    assert not no_mirror_producers().is_mirror(40)
