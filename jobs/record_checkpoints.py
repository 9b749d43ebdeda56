"""Record the groups of a cluster, and what they have committed.

    spark-submit --jars "$(mirror-ledger spark-jars)" jobs/record_checkpoints.py \
        --config FILE --cluster CLUSTER [--once]

The same as `mirror-ledger record CLUSTER`, for groups only. A running flow records its clusters itself: the
job waits while another process records the cluster. It continues while the cluster does not answer and says so
in the ledger. With --once both are an error.

Reads    groups, their committed offsets and share-partition start offsets
Appends  checkpoints, groups, share_offsets, writers; operations while the cluster does not answer
Retry    start it again: what has not changed since the last row is not appended twice
Exit     0 recorded; 1 failed; 2 configuration; 5 another cluster answers; with --once: another process records it
"""

import sys

from ledger.cli.processes.recording import record_job
from ledger.recorders.observation import Subject


def main(arguments: list[str] | None = None) -> int:
    return record_job(
        arguments,
        description="Record the groups of a cluster, and what they have committed.",
        subjects=frozenset({Subject.CHECKPOINTS, Subject.SWEEP}),
    )


if __name__ == "__main__":
    sys.exit(main())
