"""What proves a fence, partition by partition: that its leader refuses writers, and that all it has taken is seen.

Rules
    F1  a leader that refuses writers itself proves it: its authorizer lists the rules that deny them, or it refused a
        batch for the size that the fence allows. Where only a setting was read back, five seconds of F3 come instead
    F2  what no leader enforces (a hook), or what lets some records pass, stillness alone shows: no data record for the
        longest pause that writers made in the last hour, within bounds; where nothing lies in the log, for the least
    F3  a reading is *calm* when the leader's log ends where readers see it end (log end = high watermark = last stable
        offset), and no coordinator has an open transaction there. A record that followers lack yet is behind the high
        watermark, so nothing else shows it
    F4  a partition is proved by two calm readings, so far apart as F1 or F2 want it, at the same leader in the same
        leader epoch, between which no application has written: markers of transactions and copies may come. The first
        one is made after the leader was found to refuse
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Proof(StrEnum):
    """What is known of a fence; of several partitions the last one in this order counts."""

    PROVEN = "proven"  # each leader refuses writers, and shows all that it took before
    OBSERVED = "observed"  # nothing was written for as long as writers pause, no leader tells more
    UNPROVEN = "unproven"  # it could not be proved, and an operator continues all the same
    BEGUN = "begun"  # rules are made, or about to be; not proved yet

    @property
    def is_open(self) -> bool:
        """Whether somebody has to care for it."""
        return self in (Proof.UNPROVEN, Proof.BEGUN)


_ORDER = tuple(Proof)


def least(proofs: Iterable[Proof]) -> Proof:
    """The one that holds for all; nothing proves nothing."""
    return max(proofs, key=_ORDER.index, default=Proof.UNPROVEN)


class Evidence(StrEnum):
    """What shows that nobody may write to a partition."""

    RULES = "rules"  # its leader's authorizer lists the rules that deny it
    REFUSAL = "refusal"  # its leader refused a batch for its size
    SETTING = "setting"  # its leader told the setting, and could not be asked to refuse anything
    STILLNESS = "stillness"  # nothing but that nobody does


@dataclass(frozen=True, slots=True)
class QuietBounds:
    """How long stillness is watched at least and at most, in seconds, where nothing else proves."""

    least_s: float = 5.0
    most_s: float = 30.0


@dataclass(frozen=True, slots=True)
class QuietTime:
    """How far two calm readings are to be apart; `is_telling`: writers never paused for longer, or it is no matter."""

    seconds: float
    is_telling: bool


_APART = {Evidence.RULES: 1.0, Evidence.REFUSAL: 1.0, Evidence.SETTING: 5.0}


def quiet_time(
    evidence: Evidence, longest_pause_s: float | None, bounds: QuietBounds, *, is_empty: bool
) -> QuietTime:
    """F1, F2. `longest_pause_s`: between two changes of the high watermark in the last hour, None: no two are known."""
    if evidence in _APART:
        return QuietTime(_APART[evidence], is_telling=True)
    if is_empty and longest_pause_s is None:
        return QuietTime(bounds.least_s, is_telling=True)
    if longest_pause_s is None or longest_pause_s > bounds.most_s:
        return QuietTime(bounds.most_s, is_telling=False)
    return QuietTime(max(longest_pause_s, bounds.least_s), is_telling=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderReading:
    """A partition as its leader has it; `log_end` None: it does not tell, `leader_epoch` None: nor in which epoch.

    `in_sync`: how many replicas have all of it, the leader among them.
    """

    leader: int
    leader_epoch: int | None
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int | None
    in_sync: int

    @property
    def behind(self) -> int:
        """Records that followers lack as far as is known, and nobody sees yet."""
        return 0 if self.log_end is None else max(0, self.log_end - self.high_watermark)

    @property
    def is_empty(self) -> bool:
        return self.log_start >= self.high_watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWatch:
    """A partition since its leader was found to refuse, as it was read last.

    `end`: up to there it is known what was appended; behind it there was no data record. `still_since_s`: when the
    first calm reading of F4 was answered, None: there was none; `read_at_s`: when the last one was asked, both on a
    clock that never goes back: behind that nobody knows what came. `appended`: how often data was found behind the
    fence. `in_transaction`: a coordinator has one open there.
    """

    topic: str
    partition: int
    evidence: Evidence
    quiet: QuietTime
    reading: LeaderReading
    still_since_s: float | None
    read_at_s: float
    in_transaction: bool = False
    appended: int = 0

    @property
    def end(self) -> int:
        return self.reading.high_watermark

    def after(
        self,
        reading: LeaderReading,
        *,
        in_transaction: bool,
        has_data: bool,
        asked_s: float,
        answered_s: float,
    ) -> "PartitionWatch":
        """As it was read again; `has_data`: a data record lies behind the known end, or the log lost its end."""
        seen = replace(
            self,
            reading=reading,
            in_transaction=in_transaction,
            read_at_s=asked_s,
            appended=self.appended + has_data,
        )
        if has_data or not self._is_same_leader(reading) or self.still_since_s is None:
            return seen.begun(answered_s)
        return seen

    def begun(self, answered_s: float) -> "PartitionWatch":
        """From this reading on, where it is calm."""
        return replace(self, still_since_s=answered_s if self.is_calm else None)

    def _is_same_leader(self, reading: LeaderReading) -> bool:
        return (reading.leader, reading.leader_epoch) == (self.reading.leader, self.reading.leader_epoch)

    @property
    def has_open_transaction(self) -> bool:
        return self.in_transaction or self.reading.last_stable < self.end

    @property
    def is_calm(self) -> bool:
        """F3. Where stillness is all that there is, a leader that does not tell its log end is believed."""
        reading = self.reading
        is_told = reading.log_end is not None and reading.leader_epoch is not None
        if not is_told and self.evidence is not Evidence.STILLNESS:
            return False
        return not self.has_open_transaction and reading.log_end in (reading.high_watermark, None)

    def waits_s(self, now_s: float) -> float:
        """For how long it has to stay still, until it is read again."""
        begun_s = now_s if self.still_since_s is None else self.still_since_s
        return max(0.0, self.quiet.seconds - (now_s - begun_s))

    @property
    def is_still(self) -> bool:
        """F4."""
        return self.is_calm and self.still_since_s is not None and self.waits_s(self.read_at_s) == 0.0

    @property
    def proof(self) -> Proof:
        if not self.is_still:
            return Proof.UNPROVEN
        return Proof.OBSERVED if self.evidence is Evidence.STILLNESS else Proof.PROVEN
