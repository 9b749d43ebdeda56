"""The `mirror-ledger` command. Data goes to stdout, everything else to stderr.

Exit codes: 0 done or nothing to do; all others are those of `ledger.errors`.
"""

import gc
import io
import os
import sys
from collections.abc import Sequence

import click

from ledger.cli.commands import Commands
from ledger.cli.logs import FORMAT_VARIABLE, LEVEL_VARIABLE, LogFormat, LogLevel, log_to_stderr
from ledger.cli.printing import say, say_error
from ledger.config.file import CONFIG_VARIABLE
from ledger.errors import MirrorLedgerError, UsageError
from ledger.words import is_unicode

if "duckdb" not in sys.modules:  # it takes what is kept from the search for leaks of its own
    gc.freeze()  # garbage is looked for twice when a process ends: not among what is imported for good

_PLACES = {
    "init": "processes.running:init",
    "doctor": "answers.doctor:doctor",
    "import": "answers.importing:import_command",
    "adopt": "acts.adoption:adopt",
    "resync-keys": "acts.adoption:resync_keys",
    "run": "processes.running:run",
    "record": "processes.recording:record",
    "stop": "acts.operating:stop",
    "pause": "acts.operating:pause",
    "resume": "acts.operating:resume",
    "skip-to": "acts.operating:skip_to",
    "accept-foreign": "acts.operating:accept_foreign",
    "resync": "acts.operating:resync",
    "reload": "acts.operating:reload",
    "accept-cluster": "acts.directions:accept_cluster",
    "promote": "acts.directions:promote",
    "demote": "acts.directions:demote",
    "plan": "changeover.plan:plan",
    "rehearse": "changeover.rehearse:rehearse",
    "drill": "changeover.drill:drill_command",
    "apply": "changeover.apply:apply_command",
    "verify": "changeover.apply:verify",
    "undo": "changeover.apply:undo",
    "cut": "acts.directions:cut",
    "extras": "answers.extras:extras",
    "mirror-back": "acts.mirror_back:mirror_back_command",
    "fence": "acts.fencing:fence",
    "unfence": "acts.fencing:unfence",
    "remove-members": "acts.group_members:remove_members_command",
    "hand-over": "acts.hand_over:hand_over",
    "settle": "acts.settling:settle",
    "maintain": "acts.maintenance:maintain",
    "ledger": "acts.ledger_copies:ledger",
    "status": "answers.reading:status",
    "health": "answers.reading:health",
    "audit": "answers.auditing:audit",
    "verify-ledger": "answers.evidence:verify_ledger_command",
    "evidence": "answers.evidence:evidence",
    "compare": "answers.compare:compare",
    "serve": "processes.serving:serve",
    "query": "answers.reading:query",
    "report": "answers.report:report",
    "sql": "answers.sql:sql",
    "views": "answers.sql:views",
    "offsets": "answers.offsets:offsets",
    "sandbox": "ledger.sandbox.command:sandbox",
    "spark-jars": "processes.running:spark_jars",
    "demo": "ledger.sandbox.demo:demo",
}


@click.group(cls=Commands, places=_PLACES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False),
    help=f"Configuration file; else {CONFIG_VARIABLE}.",
)
@click.option(
    "--log-format",
    type=click.Choice([one.value for one in LogFormat]),
    help=f"How lines are written on stderr; else {FORMAT_VARIABLE}, else [logs] format; default text.",
)
@click.option(
    "--log-level",
    type=click.Choice([one.value for one in LogLevel]),
    help=f"From which level on events are written; else {LEVEL_VARIABLE}, else [logs] level; default info.",
)
@click.version_option(package_name="mirror-ledger")
@click.pass_context
def cli(
    context: click.Context, config_file: str | None, log_format: str | None, log_level: str | None
) -> None:
    """Mirror Kafka topics with Spark and answer for every offset from a Delta Lake ledger."""
    context.obj = config_file
    given = {FORMAT_VARIABLE: log_format, LEVEL_VARIABLE: log_level}
    os.environ.update({variable: value for variable, value in given.items() if value is not None})
    log_to_stderr()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a locale may lack what is in names
    sys.exit(_exit_code(arguments))


def _exit_code(arguments: Sequence[str] | None) -> int:
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        _require_unicode(given)
        result = cli.main(args=given, standalone_mode=False)
    except click.ClickException as error:
        text = io.StringIO()
        error.show(file=text)
        say(*text.getvalue().splitlines())
        return UsageError.exit_code
    except click.Abort:
        say("aborted")
        return MirrorLedgerError.exit_code
    except MirrorLedgerError as error:
        say_error(error)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has ended; nobody is left to report to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return MirrorLedgerError.exit_code
    except BaseException as error:
        if (why := _why_of_a_library(error)) is None:
            raise
        say(f"error: the ledger could not be used: {why}; what was recorded before stays")
        return MirrorLedgerError.exit_code
    return result if isinstance(result, int) else 0


def _why_of_a_library(error: BaseException) -> str | None:
    """What nobody foresaw of the libraries below the ledger, in one line; None: it is none of these."""
    from ledger.store import damage  # every command would wait for it

    return (
        damage.words_of(error) if damage.is_of_a_library(error) and not isinstance(error, OSError) else None
    )


def _require_unicode(arguments: Sequence[str]) -> None:
    """Neither a row of the ledger nor a name in Kafka can be equal to bytes that are no text."""
    for number, argument in enumerate(arguments, start=1):
        if not is_unicode(argument):
            raise UsageError(f"argument {number} is not UTF-8 text: {argument!r}; nothing was done")


if __name__ == "__main__":
    main()
