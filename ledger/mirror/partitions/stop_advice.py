"""What an operator can do about a stopped partition: in words, and as the command to type.

A stop lasts over restarts of the driver until a request ends it.
"""

from dataclasses import dataclass

from ledger.domain.operations.requests import RequestKind, command_line
from ledger.mirror.task.assignments import StopCause


@dataclass(frozen=True, slots=True)
class Advice:
    """The next step, and the request that lets the partition resume; None: no request does."""

    words: str
    request: RequestKind | None


ADVICE = {
    StopCause.LOST: Advice(
        'the records were deleted; `resume` continues after them, on_loss = "continue" always does',
        RequestKind.RESUME,
    ),
    StopCause.SOURCE_TRUNCATED: Advice(
        "the copies of the truncated records stay at the target; `resume` continues where both agree, "
        "`resync` copies again from an offset of your choice",
        RequestKind.RESUME,
    ),
    StopCause.SOURCE_RECREATED: Advice(
        "`resume` copies the new topic to the end of the same target topic", RequestKind.RESUME
    ),
    StopCause.TARGET_TRUNCATED: Advice("`resume` copies again what the target lost", RequestKind.RESUME),
    StopCause.TARGET_RECREATED: Advice(
        "`resume` copies all that the source still has into the new topic", RequestKind.RESUME
    ),
    StopCause.SOURCE_OUT_OF_RANGE: Advice("check the source's log; `resume` tries again", RequestKind.RESUME),
    StopCause.TARGET_OUT_OF_RANGE: Advice(
        "retention at the target deleted what lay behind the flow's recorded end; `accept-foreign` records how far "
        "and continues where the target's log begins, `resync` also copies again from an offset of your choice",
        RequestKind.ACCEPT_FOREIGN,
    ),
    StopCause.FOREIGN_WRITE: Advice(
        "stop the other writer, then `accept-foreign` continues behind what the target holds now; where others are "
        'meant to write there, set target_mode = "shared"; do neither where the records are copies by a flow '
        "of another name",
        RequestKind.ACCEPT_FOREIGN,
    ),
    StopCause.TAIL_MISMATCH: Advice(
        "compare both topics from that offset on; `accept-foreign` records what cannot be paired and continues, "
        'on_tail_lost = "copy_again" always does',
        RequestKind.ACCEPT_FOREIGN,
    ),
    StopCause.SEQUENCE_REFUSED: Advice(
        "another writer may have used this flow's producer id: search the target for records of it; "
        "`resume` tries again",
        RequestKind.RESUME,
    ),
    StopCause.SOURCE_TOPIC_GONE: Advice(
        "nothing, if the topic was meant to be deleted; its copy stays at the target", None
    ),
    StopCause.TARGET_TOPIC_GONE: Advice(
        "the target topic is created again at the next refresh of topics; then `resume`", RequestKind.RESUME
    ),
    StopCause.DENIED: Advice(
        "grant the missing permission to the mirror's principal, then `resume`", RequestKind.RESUME
    ),
    StopCause.REFUSED: Advice(
        "change the target topic's setting that the message names, then `resume`; or `skip-to` leaves the record out",
        RequestKind.RESUME,
    ),
    StopCause.CORRUPT: Advice(
        "check the source's log on that broker; `resume` tries again, `skip-to` leaves it out",
        RequestKind.RESUME,
    ),
    StopCause.TARGET_CORRUPT: Advice(
        "check the target's log on that broker; `resume` tries again. Where nothing below is needed any more, delete "
        "the target's records up to behind that offset (kafka-delete-records.sh)",
        RequestKind.RESUME,
    ),
    StopCause.FAILED: Advice(
        "a defect of this program: report the message; `resume` tries again, `skip-to` continues behind it",
        RequestKind.RESUME,
    ),
    StopCause.SHUT_OUT: Advice(
        "the target was promoted: applications come back by a plan in the other direction (`plan switchover`)",
        None,
    ),
    StopCause.UNKNOWN: Advice(
        "a later version of this program stopped it: use that version, or `resume` tries again with this one",
        RequestKind.RESUME,
    ),
    StopCause.COPIED_BY_ANOTHER_FLOW: Advice(
        "let one flow copy it: give the flow its former name back, leave the topic out of one of the two, or give "
        "this one target topics of its own; then start it again",
        None,
    ),
    StopCause.PROMOTED: Advice(
        "nothing is to be copied there while applications write at the target. The way back is a plan in the other "
        "direction (`plan switchover`); no request ends this stop",
        None,
    ),
    StopCause.OPPOSITE_HOLDS: Advice(
        "nothing while applications write at the target; where they write at the source, `promote` it over the target",
        None,
    ),
    StopCause.CUT_NOT_HELD: Advice(
        "take a cut again and start the flow with that (run --from-cut, or promote and demote --keep-ends); or start "
        "it without one: it reads all that is there, and `accept-foreign` continues behind it",
        None,
    ),
}


def advice(cause: StopCause) -> str:
    """The next step, in words."""
    return ADVICE[cause].words


def command(cause: str, *, flow: str, topic: str, partition: int | None) -> str | None:
    """The command that lets a partition resume, or all stopped ones of the topic (None). None: no single one does."""
    request = ADVICE[StopCause(cause)].request if cause in set(StopCause) else None
    return None if request is None else command_line(request, flow, topic=topic, partition=partition)
