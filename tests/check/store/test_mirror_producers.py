"""Who is a mirror: what copy tasks ask the table `writers` on real Delta, when, and what they remember."""

import pickle
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledger.errors import LedgerUnavailableError
from ledger.store import producers
from ledger.store.producers import (
    NO_PRODUCER_ID,
    CachedMirrorProducers,
    KeptMirrorProducers,
    RecordedProducerIds,
    no_mirror_producers,
)
from tests.support.ledger_rows import append, copied_to, row

# -- The table -------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path, empty_ledger: Path) -> str:
    return copied_to(tmp_path, empty_ledger)


def claim(path: str, flow: str, cluster_id: str | None, producer_id: int | None, *, epoch: int = 1) -> None:
    claimed = row(
        "writers",
        writer=f"flow:{flow}",
        writer_epoch=epoch,
        recorded_at_ms=epoch,
        event="claimed",
        host="here",
        flow=flow,
        source_cluster="a",
        source_cluster_id="cluster-a",
        target_cluster="b",
        target_cluster_id=cluster_id,
        producer_id=producer_id,
    )
    append(path, "writers", [claimed])


def test_ids_are_those_of_the_cluster_id_alone(path: str) -> None:
    recorded = RecordedProducerIds(path, "cluster-b")
    assert recorded() == frozenset()
    claim(path, "one", "cluster-b", 40)
    claim(path, "two", "cluster-c", 41)
    claim(path, "recorder", None, None)
    assert recorded() == {40}


def test_every_claim_counts_also_one_whose_id_was_given_up(path: str) -> None:
    recorded = RecordedProducerIds(path, "cluster-b")
    claim(path, "one", "cluster-b", 40)
    claim(path, "one", "cluster-b", 44, epoch=2)
    assert recorded() == {40, 44}


def test_a_claim_is_seen_by_the_very_next_look(path: str) -> None:
    directory = KeptMirrorProducers(path, "cluster-b")()
    assert not directory.is_mirror(7)
    claim(path, "late", "cluster-b", 45)
    assert directory.is_mirror(45)


def test_a_worker_keeps_one_directory_for_each_ledger_and_cluster(path: str) -> None:
    factory = KeptMirrorProducers(path, "cluster-b")
    assert pickle.loads(pickle.dumps(factory))() is factory()
    assert KeptMirrorProducers(path, "cluster-c")() is not factory()


def test_a_ledger_that_cannot_be_read_says_where_and_comes_back(path: str, tmp_path: Path) -> None:
    recorded = RecordedProducerIds(path, "cluster-b")
    claim(path, "one", "cluster-b", 40)
    assert recorded() == {40}
    away = tmp_path / "away"
    shutil.move(path, away)
    with pytest.raises(LedgerUnavailableError, match=f"{path}/writers cannot be read"):
        recorded()
    shutil.move(away, path)
    assert recorded() == {40}


def test_rows_that_are_missing_are_no_answer(path: str) -> None:
    claim(path, "one", "cluster-b", 40)
    for file in Path(path, "writers").glob("*.parquet"):
        file.unlink()
    with pytest.raises(LedgerUnavailableError):
        RecordedProducerIds(path, "cluster-b")()


# -- Asked by a task -------------------------------------------------------------------------------


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
