"""Metrics of a driver beside its run, where the configuration or an option says an address for them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ledger.cli.commands import importing
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
    config: MirrorConfig, tells: Mapping[str, Tell], *, listen: str | None = None
) -> Iterator[Mapping[str, tuple[Tell, AppendDurations]]]:
    """For the body, by flow: who is to be asked after every round, and what is to get the times of appends.

    `tells`: by flow who is to be asked besides.
    `listen`: HOST:PORT; None: as `[metrics]` says, and nowhere where it says nothing. Raises `UsageError` for what is
    no address, or one that others reach without a token, and where the extra is not installed.
    """
    appends, wanted = {flow: AppendDurations() for flow in tells}, listen or config.metrics.listen
    if wanted is None:
        yield {flow: (tell, appends[flow]) for flow, tell in tells.items()}
        return
    try:
        address = Listen.parse(wanted)
    except ValueError as error:
        raise UsageError(f"--metrics {error}; nothing was started") from None
    for why in unguarded(wanted, has_token=config.metrics.token is not None):
        raise UsageError(f"[metrics] {why}; nothing was started")
    with importing("[metrics] listen"):
        from ledger.serving.driver_metrics import exported  # of an extra
    with exported(config, appends, address) as notes:
        say(f"metrics of {', '.join(tells)} are at http://{address}/metrics")
        yield {flow: (_both(notes[flow], tell), appends[flow]) for flow, tell in tells.items()}


def _both(note: Tell, tell: Tell) -> Tell:
    def note_and_tell(progress: RunProgress) -> None:
        note(progress)
        tell(progress)

    return note_and_tell
