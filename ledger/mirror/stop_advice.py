"""What an operator can do about a stopped partition."""

from ledger.mirror.assignments import StopCause

_ADVICE = {
    StopCause.SOURCE_OUT_OF_RANGE: (
        'the missing records are gone; start the flow again to go on after them, or set on_loss = "continue"'
    ),
    StopCause.TARGET_OUT_OF_RANGE: "find out who cleared the target topic; mirror into a new target topic",
    StopCause.FOREIGN_WRITE: (
        'stop the other writer and mirror into a topic of the flow\'s own, or set target_mode = "shared"'
    ),
    StopCause.TAIL_MISMATCH: "compare both topics from that offset on; mirror into a new target topic",
    StopCause.SOURCE_TOPIC_GONE: "mirror the new source topic into a new target topic",
    StopCause.TARGET_TOPIC_GONE: "mirror into a target topic of another name, by another flow",
    StopCause.DENIED: "grant the missing permission to the mirror's principal, then start the flow again",
    StopCause.REFUSED: "change the target topic's setting that the message names, then start the flow again",
    StopCause.CORRUPT: "check the source's log on that broker; start the flow again once it can be read",
    StopCause.SHUT_OUT: "the target was promoted; plan the way back before mirroring to it again",
}


def advice(cause: StopCause) -> str:
    """The next step, in words."""
    return _ADVICE[cause]
