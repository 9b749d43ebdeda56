"""The `mirror-ledger` command. Data goes to stdout, everything else to stderr.

Exit codes: 0 done or nothing to do; all others are those of `ledger.errors`.
"""

import gc
import io
import os
import sys
from collections.abc import Sequence

import click

from ledger.cli.commands import Commands, Sections
from ledger.cli.logs import FORMAT_VARIABLE, LEVEL_VARIABLE, LogFormat, LogLevel, log_to_stderr
from ledger.cli.printing import say, say_error
from ledger.config.file import CONFIG_VARIABLE
from ledger.errors import MirrorLedgerError, UsageError
from ledger.words import is_unicode

if "duckdb" not in sys.modules:  # it takes what is kept from the search for leaks of its own
    gc.freeze()  # garbage is looked for twice when a process ends: not among what is imported for good

_COMMANDS: Sections = {
    "First mirror": {
        "import": (
            "answers.importing:import_command",
            "Print a configuration of MirrorMaker 2 as one of this tool",
        ),
        "init": ("processes.running:init", "Create the tables of the ledger"),
        "doctor": ("answers.doctor:doctor", "Check all that a flow needs, and say how to mend what fails"),
        "run": ("processes.running:run", "Copy topics: be the driver of one flow, or of several"),
        "record": ("processes.recording:record", "Record groups, ends and topics of clusters without a flow"),
        "stop": ("acts.operating:stop", "Ask the driver of a flow to end"),
        "spark-jars": ("processes.running:spark_jars", "Print the jars that spark-submit needs"),
        "sandbox": ("ledger.sandbox.command:sandbox", "Start real Kafka clusters on loopback, to try things"),
        "demo": ("ledger.sandbox.demo:demo", "Play a mirror, a failover and the way home on loopback"),
    },
    "See": {
        "status": ("answers.reading:status", "Say where each flow stands, why, and what to do"),
        "health": ("answers.reading:health", "Say by the exit code whether drivers are at work"),
        "compare": ("answers.compare:compare", "Compare what both sides of a flow hold"),
        "query": ("answers.reading:query", "Run a query of the catalog"),
        "sql": ("answers.sql:sql", "Run SQL of your own on the ledger"),
        "views": ("answers.sql:views", "Print SQL that makes the ledger's tables in DuckDB or Spark"),
        "serve": ("processes.serving:serve", "Serve pages, and metrics for Prometheus"),
        "report": ("answers.report:report", "Write a report of a period, a failover or drills"),
    },
    "Move groups": {
        "offsets": ("answers.offsets:offsets", "Translate offsets, and set groups at the other cluster"),
        "remove-members": (
            "acts.group_members:remove_members_command",
            "Remove static members of a group whose host is lost",
        ),
    },
    "Change direction": {
        "plan": ("changeover.plan:plan", "Plan a switchover, a failover or the way home"),
        "apply": ("changeover.apply:apply_command", "Carry a plan out, or continue it"),
        "undo": ("changeover.apply:undo", "Undo what an apply has changed"),
        "verify": ("changeover.apply:verify", "Read back what an apply has made"),
        "rehearse": ("changeover.rehearse:rehearse", "Try a change of direction; nothing is changed"),
        "drill": ("changeover.drill:drill_command", "Let test groups read where a failover would place them"),
        "fence": ("acts.fencing:fence", "Keep applications from writing to topics of a cluster"),
        "unfence": ("acts.fencing:unfence", "Let applications write there again"),
        "extras": ("answers.extras:extras", "List records that one of two clusters has alone"),
        "mirror-back": (
            "acts.mirror_back:mirror_back_command",
            "Open the way back to a cluster that was lost",
        ),
        "promote": ("acts.directions:promote", "Say that applications write at a cluster"),
        "demote": ("acts.directions:demote", "Take a promotion back"),
        "cut": ("acts.directions:cut", "Record where both sides of a pair stand"),
        "hand-over": (
            "acts.hand_over:hand_over",
            "Give topics the settings and permissions of the other side",
        ),
    },
    "Keep the ledger": {
        "maintain": ("acts.maintenance:maintain", "Merge small files, and remove what nobody reads any more"),
        "ledger": ("acts.ledger_copies:ledger", "Copy the ledger to a second place, and restore it"),
        "audit": ("answers.auditing:audit", "Check that the ledger keeps its invariants"),
        "verify-ledger": (
            "answers.evidence:verify_ledger_command",
            "Check that no row was changed since it was appended",
        ),
        "evidence": ("answers.evidence:evidence", "Write a bundle that proves rows without the ledger"),
    },
    "Repairs": {
        "pause": ("acts.operating:pause", "Copy nothing of a flow, or of a topic, for a while"),
        "resume": ("acts.operating:resume", "End a pause, and try again what stopped"),
        "reload": ("acts.operating:reload", "Let a driver read its configuration again"),
        "skip-to": ("acts.operating:skip_to", "Leave source offsets out up to an offset"),
        "accept-foreign": (
            "acts.operating:accept_foreign",
            "Continue behind what somebody else wrote at the target",
        ),
        "resync": ("acts.operating:resync", "Copy again what the source holds"),
        "resync-keys": (
            "acts.adoption:resync_keys",
            "Delete target keys that the source has no more",
        ),
        "adopt": ("acts.adoption:adopt", "Take over target topics that something else has filled"),
        "settle": ("acts.settling:settle", "Record what a dead driver has copied and not recorded"),
        "accept-cluster": (
            "acts.directions:accept_cluster",
            "Let an alias stand for another cluster, or a rebuilt one",
        ),
    },
}


@click.group(cls=Commands, sections=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
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
