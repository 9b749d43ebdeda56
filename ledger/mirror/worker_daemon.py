"""Spark's Python workers on the driver's machine, which leave SIGTERM to the driver: `python -m`, by Spark.

A service manager sends it to every process of a service. The driver ends its round, for which it needs the workers;
they end when its JVM does, which closes their standard input.

What copy tasks need is imported before the first worker begins: workers are forked, so all of them share that memory,
and none waits for it.
"""

import gc
import signal

from pyspark.daemon import manager

if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    import ledger.kafka.network
    import ledger.mirror.spark
    import ledger.store.producers  # noqa: F401

    gc.freeze()  # a collection would write to what is shared
    manager()
