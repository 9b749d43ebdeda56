"""A sign of life from a driver that has nothing to append: an idle flow is silent, not dead."""

from ledger.config import FlowConfig
from ledger.domain.facts import WriterEvent
from ledger.mirror.appender import BackgroundAppender
from ledger.ports import Clock, Row

_WRITERS = "writers"


def heartbeat_ms(flow: FlowConfig) -> int:
    """How often at least a living driver of the flow appends something; it does so between rounds."""
    return int(max(flow.heartbeat_seconds, flow.round_seconds) * 1000)


class Heartbeat:
    """Appends a row of `writers` when nothing else was appended for `heartbeat_seconds`."""

    def __init__(
        self, flow: FlowConfig, appender: BackgroundAppender, clock: Clock, *, claim_row: Row
    ) -> None:
        self._row = {**claim_row, "event": str(WriterEvent.ALIVE)}
        self._seconds = flow.heartbeat_seconds
        self._appender = appender
        self._clock = clock
        self._round = appender.last_round
        self._appended_at = clock.monotonic()

    def beat(self) -> None:
        """To be called between rounds; raises what an earlier append failed with."""
        now = self._clock.monotonic()
        if self._appender.last_round == self._round and now - self._appended_at >= self._seconds:
            self._appender.submit([self._row], table=_WRITERS)
        if self._appender.last_round != self._round:
            self._round, self._appended_at = self._appender.last_round, now
