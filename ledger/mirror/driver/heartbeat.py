"""A heartbeat of a driver that has nothing to append: an idle flow is silent, not dead."""

from ledger.config.flow import FlowConfig
from ledger.ports.clock import Clock
from ledger.recording.writer_session import WriterSession


def heartbeat_ms(flow: FlowConfig) -> int:
    """How often at least a driver of the flow that is alive appends something; it does so between rounds."""
    return int(max(flow.heartbeat_seconds, flow.round_seconds) * 1000)


class Heartbeat:
    """Lets the session append a heartbeat when nothing else was appended for `heartbeat_seconds`."""

    def __init__(self, flow: FlowConfig, session: WriterSession, clock: Clock) -> None:
        self._seconds = flow.heartbeat_seconds
        self._session = session
        self._clock = clock
        self._round = session.last_round
        self._appended_at = clock.monotonic()

    def beat(self) -> None:
        """To be called between rounds; raises what an earlier append failed with."""
        now = self._clock.monotonic()
        if self._session.last_round == self._round and now - self._appended_at >= self._seconds:
            self._session.alive_in_background()
        if self._session.last_round != self._round:
            self._round, self._appended_at = self._session.last_round, now
