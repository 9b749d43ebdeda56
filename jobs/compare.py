"""Compare both sides of a flow, partitions side by side on Spark's workers.

    spark-submit --jars "$(mirror-ledger spark-jars)" jobs/compare.py --config FILE \\
        FLOW --read [--topic T ...] [--sample N] [--rate MB] [-o table|json|csv] [--file FILE]

The same as `mirror-ledger compare`, by the same functions and with the same rows: each task reads its partitions at
both sides, so workers have to reach both clusters, and need what the configuration refers to (variables, files).
spark-submit adds stderr to stdout: programs read FILE.

Reads    the offset map of the flow at one cut; the partitions at both clusters
Appends  nothing
Retry    start it again: it reads everything again
Exit     0 equal; 1 they differ, or a cluster does not answer; 2 usage or configuration; 4 not everything was read
"""

import sys
from collections.abc import Sequence
from functools import partial

from ledger.answers.spark import compared_on_spark
from ledger.cli.answers.compare import compare_command
from ledger.cli.submitted import carried_out
from ledger.mirror.spark import SessionFactory, submitted_session


def main(arguments: Sequence[str] | None = None, session: SessionFactory = submitted_session) -> int:
    command = compare_command(partial(compared_on_spark, session))
    return carried_out(command, "Compare both sides of a flow.", arguments)


if __name__ == "__main__":
    sys.exit(main())
