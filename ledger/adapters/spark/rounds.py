"""Runs the copy tasks of a round as one Spark job.

Connections to brokers are kept in the Python worker, so they survive from round to round. A task that
fails drops them: its next attempt starts from nothing and reconciles with the target first.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from ledger.adapters.spark.failures import reason
from ledger.adapters.system import SystemClock
from ledger.errors import MirrorLedgerError
from ledger.mirror.task.assignments import Assignment, CopyLimits, PartitionResult
from ledger.mirror.task.copy_task import CopyTask
from ledger.ports.ledger import MirrorProducers
from ledger.ports.network import Network

NetworkFactory = Callable[[], Network]
MirrorProducersFactory = Callable[[], MirrorProducers]


class SparkRoundRunner:
    """Implements `round_loop.RoundRunner`; both factories are sent to the workers and must be picklable."""

    def __init__(
        self,
        context: SparkContext,
        connect: NetworkFactory,
        writers: MirrorProducersFactory,
        limits: CopyLimits,
    ) -> None:
        self._context = context
        self._connect = connect
        self._writers = writers
        self._limits = limits

    def run(self, tasks: Sequence[Sequence[Assignment]], *, seconds: float) -> list[PartitionResult]:
        connect, writers, limits = self._connect, self._writers, self._limits

        def copy(shares: Iterable[Sequence[Assignment]]) -> Iterator[PartitionResult]:
            for share in shares:
                yield from CopyTask(share, connect(), writers(), SystemClock(), limits).run(seconds=seconds)

        try:
            return self._context.parallelize(list(tasks), len(tasks)).mapPartitions(copy).collect()
        except Py4JJavaError as error:
            raise MirrorLedgerError(
                f"a round failed: {reason(error)}; its records are found when the flow is started again"
            ) from error
