"""Maintain the ledger's tables: merge small files, remove what merging superseded, shorten the logs.

    spark-submit --jars "$(mirror-ledger spark-jars)" jobs/maintain_ledger.py --config FILE [--dry-run]

The same as `mirror-ledger maintain`, with the merged files written by Spark's workers side by side; for ledgers that
have grown large while nobody maintained them. Drivers may append meanwhile.

Facts that are older than keep_facts_days leave by `mirror-ledger maintain` alone.

Reads    the files of every table
Appends  merged files in the place of the merged ones, without a change of rows; to projections, what answers and starts
         read in the place of rows
Retry    start it again: what was merged stays merged, what was not is found again
Exit     0 done, or nothing to do; 1 a table could not be read or written; 2 configuration; 5 another format
"""

import argparse
import os
import sys
from dataclasses import asdict
from json import dumps

from ledger.answers.maintenance import maintain_ledger
from ledger.cli.logs import log_to_stderr
from ledger.cli.printing import say, say_error
from ledger.config.file import find_config, load_config
from ledger.errors import MirrorLedgerError
from ledger.mirror.spark import submitted_session


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Maintain the ledger's tables.")
    parser.add_argument("--config")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done; change nothing")
    options = parser.parse_args(arguments)
    log_to_stderr()
    try:
        config = load_config(find_config(options.config, os.environ))
        done, failed = maintain_ledger(config, dry_run=options.dry_run, session=submitted_session)
    except MirrorLedgerError as error:
        say_error(error)
        return error.exit_code
    for failure in failed:
        say(f"error: {failure}")
    sys.stdout.write(dumps({"tables": [asdict(upkeep) for upkeep in done]}) + "\n")
    return MirrorLedgerError.exit_code if failed else 0


if __name__ == "__main__":
    sys.exit(main())
