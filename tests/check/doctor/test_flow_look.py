"""Which topics a flow takes, as the doctor sees it: by the rules that its driver goes by."""

from dataclasses import dataclass
from typing import cast

import pytest

from ledger.config import FlowConfig
from ledger.domain.topics import TopicSelection
from ledger.errors import Trouble
from ledger.operations.doctor.cluster_examination import ClusterLook
from ledger.operations.doctor.findings import Unmeasured
from ledger.operations.doctor.flow_examination import FlowLook
from ledger.operations.doctor.measurements import ClusterProbe, LedgerProbe
from ledger.ports import TopicDescription

COPYING = FlowConfig.model_validate(
    {
        "name": "copies",
        "source": "east",
        "target": "east-again",
        "topics": (".*",),
        "topic_naming": "rename",
        "rename": [{"match": "(.*)", "to": "copy-\\1"}],
    }
)
NO_ANSWER = Unmeasured("no answer", Trouble.NO_ANSWER, "cluster east")


@dataclass
class Named:
    """A probe of which no more is asked than its alias."""

    alias: str


def looked_at(alias: str, cluster_id: str | Unmeasured) -> ClusterLook:
    topics = {name: TopicDescription(name, f"id of {name}", 1, 1, False) for name in ("a", "copy-a")}
    return ClusterLook(cast("ClusterProbe", Named(alias)), {}, None, {}, cluster_id, topics)


def look(target: str, source_id: str | Unmeasured, target_id: str | Unmeasured) -> FlowLook:
    selection = TopicSelection(COPYING.topics, COPYING.exclude, naming=COPYING.naming)
    ledger = cast("LedgerProbe", None)
    return FlowLook(COPYING, selection, looked_at("east", source_id), looked_at(target, target_id), ledger)


@pytest.mark.parametrize(
    ("found", "taken"),
    [
        (look("east-again", "one", "one"), {"a"}),
        (look("west", "one", "two"), {"a", "copy-a"}),
        (look("west", NO_ANSWER, NO_ANSWER), {"a", "copy-a"}),
    ],
    ids=["two aliases of one cluster", "two clusters", "nobody says"],
)
def test_what_a_flow_makes_of_a_topic_is_not_taken_on_the_same_cluster(
    found: FlowLook, taken: set[str]
) -> None:
    selected = found.selected
    assert not isinstance(selected, Unmeasured)
    assert selected.keys() == taken
    assert not isinstance(found.taken, Unmeasured)
    assert found.taken.own_copies == {"a", "copy-a"} - taken
