"""Record where the mirrored partitions of a cluster start and end.

    spark-submit --jars "$(mirror-ledger spark-jars)" jobs/record_high_watermarks.py \
        --config FILE --cluster CLUSTER [--once]

The same as `mirror-ledger record CLUSTER`, for this table only. A running flow records its clusters itself: the
job waits while another process records the cluster. It continues while the cluster does not answer and says so
in the ledger. With --once both are an error.

Reads    the ends of the partitions that flows read or write
Appends  high_watermarks, writers; operations while the cluster does not answer
Retry    start it again: what has not changed since the last row is not appended twice
Exit     0 recorded; 1 failed; 2 configuration; 5 another cluster answers; with --once: another process records it
"""

import sys

from ledger.cli.processes.recording import record_job
from ledger.recorders.observation import Subject


def main(arguments: list[str] | None = None) -> int:
    return record_job(
        arguments,
        description="Record where the mirrored partitions of a cluster start and end.",
        subjects=frozenset({Subject.HIGH_WATERMARKS, Subject.SWEEP}),
    )


if __name__ == "__main__":
    sys.exit(main())
