"""Answer a query of the catalog from the ledger, in Spark.

    spark-submit --jars "$(mirror-ledger spark-jars)" jobs/answer.py --config FILE NAME \
        [--param KEY=VALUE ...] [--since CUT] [--as-of CUT] [-o table|json|csv] [--to FILE]

The same as `mirror-ledger query NAME`, computed by Spark's workers side by side: for ledgers of years, which one
machine reads slowly. For small ledgers the command is faster by far. The cut is printed on stderr, which spark-submit
adds to stdout: programs read the answer from FILE.

Reads    the tables of the query at one cut
Appends  nothing
Retry    start it again with --as-of and the cut that was printed: the answer is the same
Exit     0 answered; 2 usage or configuration; 4 an audit found rows; 5 a flow that never ran, another ledger
"""

import argparse
import os
import sys
from pathlib import Path

from ledger.answers.spark import run_query
from ledger.api import Ledger
from ledger.cli.answers.reading import values_of
from ledger.cli.logs import log_to_stderr
from ledger.cli.printing import put, rendered, require_tables, say, say_error
from ledger.config.file import find_config, load_config
from ledger.errors import MirrorLedgerError, UnsafeError, UsageError
from ledger.mirror.spark import SessionFactory, submitted_session
from ledger.store import catalog


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Answer a query of the catalog from the ledger, in Spark.")
    parser.add_argument("name", help="a query: mirror-ledger query --list")
    parser.add_argument("--config")
    parser.add_argument("--param", action="append", default=[], metavar="KEY=VALUE", help="of the query")
    parser.add_argument("--since", help="audit what came after this cut alone; default all rows")
    parser.add_argument("--as-of", help="a time, an operation id or a cut token; default now")
    parser.add_argument("-o", "--output", choices=("table", "json", "csv"), default="table")
    parser.add_argument("--wide", action="store_true", help="tables with every column")
    parser.add_argument("--to", metavar="FILE", help="write the answer to a file, and nothing else to it")
    options = parser.parse_args(arguments)
    log_to_stderr()
    try:
        require_tables(options.output, wide=options.wide)
        return answer(options, submitted_session)
    except MirrorLedgerError as error:
        say_error(error)
        return error.exit_code


def answer(options: argparse.Namespace, session: SessionFactory) -> int:
    """Print the answer, and return the exit code; nothing is started before the parameters are known to fit."""
    query = catalog.query(options.name)
    config = load_config(find_config(options.config, os.environ))
    ledger = Ledger.open(config, as_of=options.as_of)
    params = ledger.filled_in(query, values_of(query, options.param))
    query.check(params)
    since = None if options.since is None else ledger.range_since(query, options.since)
    found = run_query(session(), query, params, ledger.snapshot, since)
    text = rendered(found, options.output, wide=options.wide)
    put(text) if options.to is None else write(Path(options.to), text)
    say(f"cut {ledger.cut}", *([] if since is None else [f"what came since cut {since.token} was audited"]))
    if query.is_audit and found.num_rows:
        raise UnsafeError(f"{query.name}: {found.num_rows} rows break the invariant")
    return 0


def write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error}; the answer is not there") from error


if __name__ == "__main__":
    sys.exit(main())
