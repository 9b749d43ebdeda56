"""A recorder of a cluster in memory, and what there is to be recorded."""

from collections.abc import Sequence

from ledger.kafka.cluster import PartitionEnds
from ledger.recorders.observation import RecorderSettings
from ledger.recorders.recorder import ClusterRecorder
from ledger.topics.naming import NamePatterns
from tests.support.fakes import FakeCluster, FakeLedger, FakeProcesses

SETTINGS = RecorderSettings(
    groups=(NamePatterns((".*",), exclude=("tool-.*",)),),
    checkpoint_seconds=5,
    high_watermark_seconds=10,
    topic_refresh_seconds=20,
    full_sweep_seconds=60,
)


def watched_cluster() -> FakeCluster:
    """Two topics, groups that read them, and one that is not recorded."""
    cluster = FakeCluster()
    cluster.add_topic("orders", "id-1", partitions=2)
    cluster.add_topic("unmirrored", "id-9")
    cluster.add_topic("__consumer_offsets", "id-0")
    cluster.ends_now = {("orders", p): PartitionEnds(0, 4, 5, 0) for p in range(2)}
    cluster.committed = {("app", "orders", 0): 3, ("app", "unmirrored", 0): 7, ("tool-x", "orders", 0): 1}
    return cluster


def mirrored() -> Sequence[tuple[str, int]]:
    return [("orders", 0), ("orders", 1)]


def recorder_of(
    cluster: FakeCluster,
    ledger: FakeLedger,
    processes: FakeProcesses | None = None,
    settings: RecorderSettings = SETTINGS,
) -> ClusterRecorder:
    """It has not taken its role yet."""
    return ClusterRecorder(
        cluster,
        ledger,
        ledger,
        ledger.clock,
        settings,
        partitions=mirrored,
        processes=processes or FakeProcesses(),
    )
