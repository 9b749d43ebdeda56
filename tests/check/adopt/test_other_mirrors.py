"""Signs that MirrorMaker 2 still runs though it writes nothing to the topics that are taken over."""

from collections.abc import Sequence

import pytest

from ledger.adopt.adopting import PartitionAdoption, signs_of_mirror_maker
from ledger.errors import PreconditionError
from ledger.facts.syncs import PartitionPair
from ledger.kafka.cluster import GroupListing
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.schedule import Schedule
from tests.support.copy_tasks import SOURCE, TARGET


class Target(MemoryCluster):
    """A cluster with groups, and with the time of the last record of each topic."""

    def __init__(self, *listed: GroupListing) -> None:
        super().__init__("west", Schedule())
        self.listed = list(listed)
        self.last_written_ms: dict[str, int] = {}
        self.is_denied = False

    def groups(self) -> list[GroupListing]:
        if self.is_denied:
            raise PreconditionError("groups may not be listed")
        return self.listed

    def topic(self, name: str, *, age_s: float) -> None:
        self.create_topic(name, partitions=1, replication_factor=1, configuration={})
        self.last_written_ms[name] = self.clock.now_ms() - int(age_s * 1000)

    def offsets_at(
        self, partitions: Sequence[tuple[str, int]], timestamp_ms: int
    ) -> dict[tuple[str, int], int]:
        return {at: 0 for at in partitions if self.last_written_ms[at[0]] >= timestamp_ms}


def signs(target: Target) -> list[str]:
    return signs_of_mirror_maker(target, target.clock)


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", None])
def test_workers_of_connect_are_told(state: str | None) -> None:
    [sign] = signs(Target(GroupListing("east-mm2", "classic", state, "connect")))
    assert sign.startswith("Kafka Connect is at work at west (group east-mm2): ")


@pytest.mark.parametrize(
    "group",
    [
        GroupListing("east-mm2", "classic", "Empty", "connect"),
        GroupListing("east-mm2", "classic", "Dead", "connect"),
        GroupListing("application", "classic", "Stable", "consumer"),
        GroupListing("application", "consumer", "Stable", None),
    ],
)
def test_groups_of_others_and_groups_at_rest_are_not(group: GroupListing) -> None:
    assert signs(Target(group)) == []


@pytest.mark.parametrize(
    "name", ["heartbeats", "east.heartbeats", "east.checkpoints.internal", "mm2-offset-syncs.east.internal"]
)
def test_topics_that_mirror_maker_writes_to_itself_tell_when_they_are_fresh(name: str) -> None:
    target = Target()
    target.topic(name, age_s=149)
    [sign] = signs(target)
    assert sign.startswith(f"{name} at west was written to within 150 s")
    old = Target()
    old.topic(name, age_s=151)
    assert signs(old) == []


def test_other_topics_do_not_tell() -> None:
    target = Target()
    for name in ("orders", "east.orders", "heartbeats-of-machines", "checkpoints.internal"):
        target.topic(name, age_s=1)
    assert signs(target) == []


def test_what_may_not_be_read_is_not_taken_for_fine() -> None:
    target = Target()
    target.is_denied = True
    assert signs(target) == ["whether MirrorMaker still runs is unknown: groups may not be listed"]


def test_signs_are_remarks_of_all_that_is_not_refused() -> None:
    pair = PartitionPair(SOURCE, TARGET)
    assert PartitionAdoption.empty(pair).remarked(["a sign"]).remarks[-1] == "a sign"
    assert PartitionAdoption.refused(pair, "why").remarked(["a sign"]).remarks == ("why",)
