"""What is read for a comparison while nobody answers at a configured address: brokers that the ledger has."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from ledger.comparing.flow import Asked, Compared, Due, Progress, Say, Sides, compare_flow
from ledger.context import Context
from ledger.kafka.leaders import KafkaFencing
from tests.support.operated import FLOW, NOBODY, operated
from tests.support.small_brokers import CLUSTER_ID, small_broker


def test_both_sides_are_read_at_brokers_that_answer(
    tmp_path: Path, empty_ledger: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(admin: KafkaFencing, partitions: Iterable[object]) -> dict[object, None]:
        assert admin.cluster_id() == CLUSTER_ID
        return dict.fromkeys(partitions)

    monkeypatch.setattr(KafkaFencing, "ends", ends)
    monkeypatch.setattr(KafkaFencing, "topic_settings", lambda _admin, _topics: SimpleNamespace(read={}))
    read: list[Sides] = []

    def comparer(
        sides: Sides, due: Sequence[Due], _asked: Asked, _progress: Progress, _say: Say
    ) -> Sequence[Compared]:
        read.append(sides)
        assert [one.one.source.topic for one in due] == ["orders"]
        return []

    flow = operated(tmp_path, empty_ledger, capsys)
    ids = {"source_cluster_id": CLUSTER_ID, "target_cluster_id": CLUSTER_ID}
    sides = {"flow": FLOW, "source_cluster": "east", "target_cluster": "west", **ids}
    flow.append("writers", {**sides, "writer": f"flow:{FLOW}", "event": "claimed", "host": "elsewhere:1:1"})
    flow.copied({("orders", 0): 100})
    with small_broker() as east, small_broker() as west, Context(flow.config) as context:
        for alias, broker in (("east", east), ("west", west)):
            seen = {"source_cluster_id": CLUSTER_ID, "brokers": f"PLAINTEXT://{broker.address}"}
            claim = {"writer": f"recorder:{alias}", "source_cluster": alias, "host": "elsewhere:1:2", **seen}
            flow.append("writers", {**claim, "event": "claimed"})
        compare_flow(context, FLOW, Asked(), is_read=True, say=lambda _line: None, comparer=comparer)
        [found] = read
        expected = [f"{NOBODY},{broker.address}" for broker in (east, west)]
    assert [side.bootstrap_servers for side in found] == expected
