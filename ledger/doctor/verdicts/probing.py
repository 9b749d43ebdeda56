"""The probe of a target's compare-and-append: what is sent, what must be answered, and the verdict.

Partition 0 shows that a repetition is answered and not written, also after records of another producer,
and that a hole and an overlap are refused. Partition 1 shows the same where sequences wrap around.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ledger.doctor.check_results import CheckResult, Unmeasured, duration, unknown
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.measurements import AppendObservation, ClockObservation, Send, Settings
from ledger.domain.facts import SEQUENCE_MODULUS
from ledger.wire.error_codes import ErrorCode

CLOCK_WARNING_MS = 1_000
PRODUCER_STATE_WARNING_MS = 3_600_000
_LAST = SEQUENCE_MODULUS - 1


@dataclass(frozen=True, slots=True)
class Expectation:
    """A batch, what it shows, and its answer: the first offset, or None for a refusal with 45."""

    shows: str
    send: Send
    offset: int | None


SCRIPT = (
    Expectation("a first batch is written", Send(0, 0, 3), 0),
    Expectation("the same batch again is answered with its first offset", Send(0, 0, 3), 0),
    Expectation("another producer's batch is written behind it", Send(0, 0, 2, own=False), 3),
    Expectation("the first batch again, after foreign records, is answered as before", Send(0, 0, 3), 0),
    Expectation("the next batch goes behind the foreign records", Send(0, 3, 2), 5),
    Expectation("a batch that leaves a hole is refused", Send(0, 6, 1), None),
    Expectation("a batch that overlaps is refused", Send(0, 4, 2), None),
    Expectation("a batch of another length from a known sequence is refused", Send(0, 3, 3), None),
    Expectation("a batch across the last sequence is written", Send(1, _LAST - 1, 4), 0),
    Expectation("the same batch again is answered with its first offset", Send(1, _LAST - 1, 4), 0),
    Expectation("the next batch starts after the wrap", Send(1, 2, 1), 4),
    Expectation("a hole after the wrap is refused", Send(1, 4, 1), None),
)
SENDS = tuple(expectation.send for expectation in SCRIPT)
ENDS = {0: 7, 1: 5}
NOT_ASKED = "not asked for: --probe creates and deletes a topic at the target"


def skipped_probe(subject: str) -> CheckResult:
    return CheckResult(subject, Check.COMPARE_AND_APPEND, Verdict.SKIPPED, NOT_ASKED, "examine with --probe")


def compare_and_append(subject: str, observed: AppendObservation | Unmeasured) -> CheckResult:
    """Whether every answer was the one that exactly-once rests on."""
    check = Check.COMPARE_AND_APPEND
    if isinstance(observed, Unmeasured):
        return unknown(subject, check, observed)
    wrong = [*_wrong_answers(observed), *_wrong_ends(observed.ends)]
    if wrong:
        advice = "do not mirror to this cluster: repeated writes would leave duplicates or holes"
        return CheckResult(subject, check, Verdict.FAILED, "; ".join(wrong), advice)
    measured = (
        f"{len(SCRIPT)} of {len(SCRIPT)} answers as expected in topic {observed.topic}, deleted since: "
    )
    measured += (
        "repetitions are answered, holes and overlaps refused, also after foreign records and the wrap"
    )
    return CheckResult(subject, check, Verdict.OK, measured)


def _wrong_answers(observed: AppendObservation) -> Iterator[str]:
    for expectation, answer in zip(SCRIPT, observed.answers, strict=True):
        refused = answer.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        got = f"error {answer.error}" if answer.error else f"offset {answer.base_offset}"
        wanted = "error 45" if expectation.offset is None else f"offset {expectation.offset}"
        if got != wanted and not (expectation.offset is None and refused):
            yield f"{expectation.shows}: wanted {wanted}, got {got}"


def _wrong_ends(ends: Mapping[int, int]) -> Iterator[str]:
    for partition, wanted in ENDS.items():
        if ends.get(partition) != wanted:
            yield f"partition {partition} ends at {ends.get(partition)}, not at {wanted}"


# Clocks ----------------------------------------------------------------------------------------


def source_clock(subject: str) -> CheckResult:
    """Only a write tells a broker's time, and a source is never written to."""
    measured = "cannot be measured without writing to the source"
    return CheckResult(subject, Check.BROKER_CLOCK, Verdict.SKIPPED, measured)


def target_clocks(
    cluster: str, observed: Sequence[ClockObservation] | Unmeasured | None
) -> Iterator[CheckResult]:
    """One result for each broker; `observed` None: no probe was asked for."""
    check = Check.BROKER_CLOCK
    if observed is None:
        yield CheckResult(f"cluster {cluster}", check, Verdict.SKIPPED, NOT_ASKED, "examine with --probe")
    elif isinstance(observed, Unmeasured):
        yield unknown(f"cluster {cluster}", check, observed)
    else:
        for one in observed:
            yield _clock(f"broker {cluster}/{one.node_id}", one)


def _clock(subject: str, one: ClockObservation) -> CheckResult:
    """The broker stamped somewhere between sending and answering: only what lies outside is its fault."""
    ahead_ms, behind_ms = one.stamped_ms - one.answered_ms, one.sent_ms - one.stamped_ms
    off_ms = max(ahead_ms, behind_ms, 0)
    if off_ms > CLOCK_WARNING_MS:
        direction = "ahead of" if ahead_ms > 0 else "behind"
        measured = f"at least {duration(off_ms)} {direction} this machine"
        advice = "set both clocks by NTP: lag in seconds, retention and --as-of times are off by that much"
        return CheckResult(subject, Check.BROKER_CLOCK, Verdict.WARNING, measured, advice)
    measured = f"within {duration(max(off_ms, one.answered_ms - one.sent_ms, 1))} of this machine's"
    return CheckResult(subject, Check.BROKER_CLOCK, Verdict.OK, measured)


# Producer state --------------------------------------------------------------------------------


def producer_state(cluster: str, brokers: Mapping[int, Settings] | Unmeasured) -> Iterator[CheckResult]:
    """How long target brokers remember producers, as they report it."""
    check = Check.PRODUCER_STATE
    if isinstance(brokers, Unmeasured):
        yield unknown(f"cluster {cluster}", check, brokers)
        return
    for node_id, settings in sorted(brokers.items()):
        yield _producer_state(f"broker {cluster}/{node_id}", settings)


def _producer_state(subject: str, settings: Settings) -> CheckResult:
    """Brokers before 3.5 do not tell the first of the two: then it is the second."""
    transactional = settings["transactional.id.expiration.ms"]
    producer = settings.get("producer.id.expiration.ms", transactional)
    measured = (
        f"producer.id.expiration.ms {producer} ({duration(int(producer))}), "
        f"transactional.id.expiration.ms {transactional} ({duration(int(transactional))})"
    )
    if int(producer) < PRODUCER_STATE_WARNING_MS:
        advice = (
            "raise producer.id.expiration.ms: after that pause only the tail of the log tells repetitions"
        )
        return CheckResult(subject, Check.PRODUCER_STATE, Verdict.WARNING, measured, advice)
    return CheckResult(subject, Check.PRODUCER_STATE, Verdict.OK, measured)
