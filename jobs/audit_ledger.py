"""Audit the ledger in Spark: whether it keeps its invariants, all of it or what came since a cut.

    spark-submit --jars "$(mirror-ledger spark-jars)" jobs/audit_ledger.py --config FILE \
        [--since CUT] [--as-of CUT] [-o table|json|csv] [--to FILE]

The same as `mirror-ledger audit`, computed by Spark's workers side by side. The cut, and from which one on was audited,
are printed on stderr, which spark-submit adds to stdout: programs read the answer from FILE.

Reads    the tables of all audits at one cut
Appends  nothing
Retry    start it again with --as-of and the cut that was printed: the answer is the same
Exit     0 kept; 2 usage or configuration; 4 an audit found rows; 5 another ledger
"""

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path

from ledger.answers.ledger import Ledger, audits_of
from ledger.answers.spark import audit_rows
from ledger.cli.answers.auditing import columns_of, require_kept, said_of
from ledger.cli.logs import log_to_stderr
from ledger.cli.printing import put, rendered, say, say_error, table_of
from ledger.config.file import find_config, load_config
from ledger.errors import MirrorLedgerError, UsageError
from ledger.mirror.spark import SessionFactory, submitted_session


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Audit the ledger, in Spark.")
    parser.add_argument("--config")
    parser.add_argument("--since", help="audit what came after this cut alone; default all rows")
    parser.add_argument("--as-of", help="a time, an operation id or a cut token; default now")
    parser.add_argument("-o", "--output", choices=("table", "json", "csv"), default="table")
    parser.add_argument("--to", metavar="FILE", help="write the answer to a file, and nothing else to it")
    options = parser.parse_args(arguments)
    log_to_stderr()
    try:
        audit(options, submitted_session)
    except MirrorLedgerError as error:
        say_error(error)
        return error.exit_code
    return 0


def audit(options: argparse.Namespace, session: SessionFactory) -> None:
    """Print the answer; raises `UnsafeError` where an audit finds rows."""
    config = load_config(find_config(options.config, os.environ))
    ledger = Ledger.open(config, as_of=options.as_of)
    since = None if options.since is None else ledger.cut_since(options.since)
    found = audits_of(audit_rows(session(), ledger.snapshot, since), since)
    text = rendered(table_of(map(asdict, found), columns_of(options.output)), options.output)
    if options.to is None:
        put(text)
    else:
        try:
            Path(options.to).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{options.to} cannot be written: {error}; the answer is not there") from error
    say(f"cut {ledger.cut}", said_of(found))
    require_kept(found, None if since is None else since.token)


if __name__ == "__main__":
    sys.exit(main())
