"""Metrics of a driver beside its run, where the configuration or an option says an address for them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ledger.cli.commands import lacking_extra
from ledger.cli.printing import say
from ledger.config.file import unguarded
from ledger.config.mirror import MirrorConfig
from ledger.config.values import Listen
from ledger.errors import UsageError
from ledger.mirror.progress import RunProgress
from ledger.store.append_durations import AppendDurations

Tell = Callable[[RunProgress], None]


@contextmanager
def exporting(
    config: MirrorConfig, flow: str, tell: Tell, *, listen: str | None = None
) -> Iterator[tuple[Tell, AppendDurations]]:
    """For the body: who is to be asked after every round, `tell` among them, and what is to get the times of appends.

    `listen`: HOST:PORT; None: as `[metrics]` says, and nowhere where it says nothing. Raises `UsageError` for what is
    no address, or one that others reach without a token, and where the extra is not installed.
    """
    appends, wanted = AppendDurations(), listen or config.metrics.listen
    if wanted is None:
        yield tell, appends
        return
    try:
        address = Listen.parse(wanted)
    except ValueError as error:
        raise UsageError(f"--metrics {error}; nothing was started") from None
    for why in unguarded(wanted, has_token=config.metrics.token is not None):
        raise UsageError(f"[metrics] {why}; nothing was started")
    try:
        from ledger.serving.driver_metrics import exported  # of an extra
    except ModuleNotFoundError as error:
        if (lacking := lacking_extra("[metrics] listen", error)) is None:
            raise
        raise lacking from error
    with exported(config, config.flow(flow), address, appends) as note:
        say(f"metrics of {flow} are at http://{address}/metrics")

        def note_and_tell(progress: RunProgress) -> None:
            note(progress)
            tell(progress)

        yield note_and_tell, appends
