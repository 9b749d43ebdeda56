"""The recorders of a simulation: they look at groups, ends and topics of every cluster now and then."""

import random
from collections.abc import Iterable, Sequence

from ledger.errors import ClusterUnavailableError, LedgerUnavailableError
from ledger.recorders.observation import RecorderSettings
from ledger.recorders.recorder import ClusterRecorder
from ledger.topics.naming import NamePatterns
from tests.simulation.kafka.cluster import MemoryCluster
from tests.simulation.kafka.schedule import Schedule
from tests.simulation.ledger.fact_log import MemoryFactLog, MemoryLedgerState
from tests.simulation.ledger.tables import MemoryLedger
from tests.support.fakes import FakeProcesses
from tests.support.ledgers import numbered

_SETTINGS = RecorderSettings(
    groups=(NamePatterns((".*",)),),
    checkpoint_seconds=1.0,
    high_watermark_seconds=1.0,
    topic_refresh_seconds=1.0,
    full_sweep_seconds=4.0,
)


class Recorders:
    """One for each cluster; where a cluster or the ledger does not answer it looks the next time."""

    def __init__(
        self,
        rng: random.Random,
        schedule: Schedule,
        clusters: Iterable[MemoryCluster],
        ledger: MemoryLedger,
    ) -> None:
        self._rng = rng
        self._schedule = schedule
        state, fact_log = MemoryLedgerState(ledger), MemoryFactLog(ledger, schedule)
        self._recorders = [
            ClusterRecorder(
                cluster,
                fact_log,
                state,
                schedule,
                _SETTINGS,
                partitions=_Partitions(cluster),
                processes=FakeProcesses(),
                new_id=numbered(),
            )
            for cluster in clusters
        ]
        self.is_over = False

    def start(self) -> None:
        self._schedule.after(self._rng.uniform(0.2, 1.0), self._tick)

    def _tick(self) -> None:
        if not self.is_over:
            self._record(self._rng.choice(self._recorders))
            self._schedule.after(self._rng.uniform(0.1, 0.8), self._tick)

    def record_all(self) -> bool:
        """Look at everything now; whether every cluster answered."""
        return all([self._record(recorder) for recorder in self._recorders])

    def _record(self, recorder: ClusterRecorder) -> bool:
        try:
            recorder.take_role()
            recorder.record_once()
        except (ClusterUnavailableError, LedgerUnavailableError):
            return False
        return True


class _Partitions:
    """All partitions of a cluster, as they are now."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def __call__(self) -> Sequence[tuple[str, int]]:
        topics = self._cluster.topic_by_name.values()
        return [(topic.name, number) for topic in topics for number in range(len(topic.logs))]
