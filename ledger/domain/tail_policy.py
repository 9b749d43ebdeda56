"""What a flow does about its own unrecorded records at a target of which nothing can be proved any more."""

from enum import StrEnum


class TailPolicy(StrEnum):
    """It is recorded either way."""

    STOP = "stop"  # stop the partition until an operator decides
    COPY_AGAIN = "copy_again"  # copy the source again from the recorded position, behind them

    @classmethod
    def of(cls, given: "TailPolicy | None", cleanup_policy: str | None) -> "TailPolicy":
        """The policy given, else by the source topic's cleanup.policy; None: it is not known.

        Where a cleaner keeps the last record of each key and removes nothing else, records that are there twice, in
        order, come to the same.
        """
        if given is not None:
            return given
        return cls.COPY_AGAIN if cleanup_policy == "compact" else cls.STOP
