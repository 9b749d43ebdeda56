"""What of a partition is on its way to the target, or there and not settled yet."""

from dataclasses import dataclass

from ledger.mirror.task.batch_plan import Step


@dataclass(slots=True)
class Sent:
    """A step on its way; `base_offset` is set by the acknowledgement."""

    step: Step
    expected_offset: int
    base_offset: int | None = None

    def land_at(self, base_offset: int) -> None:
        """It is acknowledged there."""
        self.base_offset = base_offset

    @property
    def landed_offset(self) -> int:
        """Where it lies, once it is acknowledged."""
        assert self.base_offset is not None
        return self.base_offset
