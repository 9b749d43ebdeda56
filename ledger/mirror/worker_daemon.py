"""Spark's Python workers on the driver's machine, which leave SIGTERM to the driver: `python -m`, by Spark.

A service manager sends it to every process of a service. The driver ends its round, for which it needs the workers;
they end when its JVM does, which closes their standard input.
"""

import signal

from pyspark.daemon import manager

if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    manager()
