"""The table `writers` on real Delta, as copy tasks look into it."""

import pickle
import shutil
from pathlib import Path

import pytest

from ledger.errors import LedgerUnavailableError
from ledger.store.producers import KeptMirrorProducers, RecordedProducerIds
from tests.support.ledger_copies import copied_to
from tests.support.ledger_rows import append, row


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
