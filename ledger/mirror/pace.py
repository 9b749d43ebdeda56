"""How fast one task may read: bytes of record batches a second, where its flow has a limit."""

_BURST_S = 1.0
"""What was not used for so long is used later; no more of it is kept."""
_WORTH_S = 0.05
"""A fetch waits until it may bring what so long is worth: many small ones would cost the brokers more."""


class Pace:
    """A budget of bytes that fills with time; a batch that is larger than it is comes whole, and is paid for later.

    `byte_rate` None: no limit.
    """

    def __init__(self, byte_rate: float | None, *, now: float) -> None:
        self._byte_rate = byte_rate
        self._budget = 0.0
        self._filled_at = now

    def room(self, now: float) -> int | None:
        """How much the next fetch may bring; None: as much as it likes, 0: it has to wait."""
        if self._byte_rate is None:
            return None
        filled = self._budget + (now - self._filled_at) * self._byte_rate
        self._budget, self._filled_at = min(filled, _BURST_S * self._byte_rate), now
        return int(self._budget) if self._budget >= max(1.0, _WORTH_S * self._byte_rate) else 0

    def took(self, size: int) -> None:
        """So much came."""
        self._budget -= size
