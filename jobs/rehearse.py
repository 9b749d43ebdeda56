"""What a failover would have cost at each instant of a ledger's past, computed by Spark's workers side by side.

    spark-submit --jars "$(mirror-ledger spark-jars)" jobs/rehearse.py --config FILE \\
        --from E --to W --every STEP --since TIME [--until TIME] [--topic T ...] [--leave-out T ...]
        [--group G ...] [--fence HOW] [--accept NAME ...] [-o table|json|csv] [--file FILE]

The same as `mirror-ledger rehearse failover --every`, with the same rows: each task opens the ledger at the cuts of
some instants, so workers have to reach the ledger's path. spark-submit adds stderr to stdout: programs read FILE.

Reads    every table of the ledger, at each instant's cut
Appends  nothing
Retry    start it again: the rows of an instant that has passed are the same
Exit     0 answered; 2 usage or configuration; 5 there is a plan at no instant, another ledger
"""

import sys
from collections.abc import Sequence
from functools import partial

from ledger.answers.spark import rows_on_spark
from ledger.cli.changeover.rehearse import failover_command
from ledger.cli.submitted import carried_out
from ledger.mirror.spark import SessionFactory, submitted_session


def main(arguments: Sequence[str] | None = None, session: SessionFactory = submitted_session) -> int:
    command = failover_command(partial(rows_on_spark, session))
    return carried_out(command, "What a failover would have cost in the past.", arguments)


if __name__ == "__main__":
    sys.exit(main())
