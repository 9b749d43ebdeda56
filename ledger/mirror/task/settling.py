"""Records what of one partition was sent, once it is proved to be at the target."""

from ledger.mirror.task.batch_plan import Skip
from ledger.mirror.task.send_window import SendWindow
from ledger.mirror.task.sent import Sent
from ledger.mirror.task.sync_builder import SyncBuilder


class Settling:
    """P3: only what is acknowledged leaves the window for the builder, in source order."""

    def __init__(self, window: SendWindow, builder: SyncBuilder, *, exclusive: bool) -> None:
        self._window = window
        self._builder = builder
        self._exclusive = exclusive

    def settle(self, *, waiting: Sent | None, has_stopped: bool) -> None:
        """As far as it goes: not up to `waiting`, whose surroundings are not known yet (P6).

        Behind a stop nothing is read any more: what has others before it is left to the next attempt.
        """
        while (oldest := self._window.oldest) is not None and oldest is not waiting:
            if not self._may_settle(oldest, has_stopped=has_stopped):
                return
            self.settle_oldest()

    def _may_settle(self, sent: Sent, *, has_stopped: bool) -> bool:
        if isinstance(sent.step, Skip):
            return True
        if sent.base_offset is None:
            return False
        may_read = not has_stopped or not self._exclusive
        return may_read or sent.base_offset == self._builder.position.target_offset

    def settle_oldest(self) -> None:
        """It is known to be there."""
        sent = self._window.settle_oldest()
        if isinstance(sent.step, Skip):
            self._builder.skip(sent.step)
        else:
            self._builder.copied(sent.step, base_offset=sent.landed_offset, recovered=False)
