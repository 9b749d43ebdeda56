"""What an operator can do about a stopped partition."""

from ledger.mirror.assignments import StopCause

_ADVICE = {
    StopCause.LOST: 'the records are gone; `resume` goes on after them, on_loss = "continue" always does',
    StopCause.SOURCE_TRUNCATED: (
        "the copies of what the source took back stay at the target; `resume` goes on where both agree, "
        "`resync` copies again from an offset of your choice"
    ),
    StopCause.SOURCE_RECREATED: "`resume` copies the new topic to the end of the same target topic",
    StopCause.TARGET_TRUNCATED: "`resume` copies again what the target lost",
    StopCause.TARGET_RECREATED: "`resume` copies all that the source still has into the new topic",
    StopCause.SOURCE_OUT_OF_RANGE: "look at the source's log; `resume` tries again",
    StopCause.TARGET_OUT_OF_RANGE: (
        "records of this flow that were not recorded yet are gone from the target; `resync` copies again from an "
        "offset of your choice"
    ),
    StopCause.FOREIGN_WRITE: (
        "stop the other writer, then `accept-foreign` goes on behind what the target holds now; or set "
        'target_mode = "shared"'
    ),
    StopCause.TAIL_MISMATCH: (
        "compare both topics from that offset on; `accept-foreign` records what cannot be paired and goes on"
    ),
    StopCause.SEQUENCE_REFUSED: (
        "another writer may have used this flow's producer id: look for records of it at the target; "
        "`resume` tries again"
    ),
    StopCause.SOURCE_TOPIC_GONE: "nothing, if the topic was meant to be deleted; its copy stays at the target",
    StopCause.TARGET_TOPIC_GONE: "the target topic is created again at the next look; then `resume`",
    StopCause.DENIED: "grant the missing permission to the mirror's principal, then `resume`",
    StopCause.REFUSED: (
        "change the target topic's setting that the message names, then `resume`; or `skip-to` leaves the record out"
    ),
    StopCause.CORRUPT: "check the source's log on that broker; `resume` tries again, `skip-to` leaves it out",
    StopCause.SHUT_OUT: "the target was promoted; plan the way back before mirroring to it again",
}


def advice(cause: StopCause) -> str:
    """The next step, in words."""
    return _ADVICE[cause]
