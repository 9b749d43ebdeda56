"""The copy task: many partitions, two clusters, one loop, until the round's deadline.

Fetches run ahead while produce requests are in flight; a task returns only when every request that it
sent is answered or lost, so nothing writes to a partition after its task has returned.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from ledger.clock import Clock
from ledger.errors import ClusterUnavailableError, LedgerUnavailableError, ProtocolError
from ledger.facts.findings import Side
from ledger.facts.state import MirrorProducers
from ledger.kafka.batches import batch_at
from ledger.kafka.copying import ClusterLink, Completion, Network
from ledger.kafka.requests import (
    ID_REFUSED,
    REFUSED,
    TOPIC_UNKNOWN,
    TRANSIENT,
    ErrorCode,
    Fetched,
    FetchItem,
    Produced,
    ProduceItem,
    describe,
)
from ledger.mirror.assignment import (
    LEDGER,
    WRITING,
    Assignment,
    CopyLimits,
    PartitionResult,
    RequestKind,
    StopCause,
)
from ledger.mirror.cutting import CUTTABLE
from ledger.mirror.pace import Pace
from ledger.mirror.partition import PartitionCopy
from ledger.mirror.slow_partitions import SlowPartitions
from ledger.mirror.steps import Copy

_DELETED_AFTER_FAILURES = 6  # with the pauses between them 3 s: within a round
_TOPIC_DELETED = {Side.SOURCE: StopCause.SOURCE_TOPIC_GONE, Side.TARGET: StopCause.TARGET_TOPIC_GONE}
_REFRESH_PAUSE_S = 0.2
_POLL_S = 0.1
_IDLE_POLL_S = 0.25
"""Where brokers answer as soon as there are records, and nothing else is waited for."""
_IN_TURN_EVERY = 4  # of so many fetches one does not put any partition first: what comes first starves nobody
Answer = TypeVar("Answer", Fetched, Produced)
MergeLimits = dict[tuple[str, int], int]
"""By partition of the target the most bytes that small batches are merged to: fewer where it refused as many."""


@dataclass(frozen=True, slots=True)
class _Flight:
    """Partitions of one request, in which attempt of each it was sent, and how to take the answer."""

    copies: tuple[PartitionCopy, ...]
    attempts: tuple[int, ...]
    kind: RequestKind
    take: Callable[["_Flight", Completion], None]
    sent_at: float
    size: int = 0
    node: int = 0
    waits: bool = False
    """Whether the broker answers when there are records only, or after a while."""


class CopyTask:
    """Runs the assignments of one task once; `run` returns a result for each of them."""

    def __init__(
        self,
        assignments: Iterable[Assignment],
        network: Network,
        writers: MirrorProducers,
        clock: Clock,
        limits: CopyLimits,
        slow: SlowPartitions | None = None,
        merged: MergeLimits | None = None,
    ) -> None:
        """`slow`, `merged`: what is known of the partitions from rounds before."""
        self._slow = SlowPartitions() if slow is None else slow
        self._merged = {} if merged is None else merged
        self._copies = deque(
            PartitionCopy(
                assignment,
                writers,
                merges_up_to=self._merged.get(assignment.target.key, limits.merged_bytes),
            )
            for assignment in assignments
        )
        self._to_send = dict.fromkeys(self._copies)
        """Who may have something to send, which changes by an answer alone; who has sent last comes last."""
        self._network = network
        self._clock = clock
        self._limits = limits
        self._flights: dict[int, _Flight] = {}
        self._fetching_nodes: set[int] = set()
        self._gathering: dict[int, float] = {}
        """By node of the source from when on the next fetch may be sent to it, where its last answer was small."""
        self._in_flight: dict[int, list[int]] = {}
        self._refresh_at = {Side.SOURCE: 0.0, Side.TARGET: 0.0}
        rates = [copy.assignment.byte_rate for copy in self._copies if copy.assignment.byte_rate is not None]
        self._pace = Pace(min(rates, default=None), now=clock.monotonic())
        self._puts_first = any(copy.assignment.comes_first for copy in self._copies)
        self._fetches = 0

    def run(self, *, seconds: float, is_to_end: Callable[[], bool] = lambda: False) -> list[PartitionResult]:
        """Copy until the deadline, until every partition has reached its `end_offset`, or until none can continue.

        Or until there is so much to record that it takes the memory which `CopyLimits` allows for it, or it is to end.
        """
        deadline = self._clock.monotonic() + seconds
        while self._may_continue() and (now := self._clock.monotonic()) < (end := self._end(deadline)):
            if is_to_end():
                deadline = now
                break
            self._read_tails(self._copies, now)
            self._fetch(now, end)
            self._produce()
            self._poll(min(_IDLE_POLL_S if self._is_idle else _POLL_S, end - now, self._gathered_in(now)))
        self._drain(deadline + self._limits.drain_ms / 1000)
        for copy in self._copies:
            with _halting(copy):
                copy.target.conclude()
            self._merged[copy.assignment.target.key] = copy.merging.most_bytes
        return [copy.result() for copy in self._copies]

    @property
    def _is_idle(self) -> bool:
        """All partitions are in fetches that wait for records."""
        flights = self._flights.values()
        is_reading = all(flight.waits for flight in flights)
        return is_reading and sum(len(flight.copies) for flight in flights) == len(self._copies)

    def _end(self, deadline: float) -> float:
        """The search of a tail that cleaners have changed begins again in every task: none ends in the middle of it."""
        is_searching = any(copy.target.is_searching for copy in self._copies)
        return deadline + self._limits.search_ms / 1000 if is_searching else deadline

    def _may_continue(self) -> bool:
        has_room = sum(copy.target.builder.gap_count for copy in self._copies) < self._limits.gaps
        return has_room and any(copy.target.is_active for copy in self._copies)

    def _drain(self, grace_end: float) -> None:
        """Send what is planned while the grace period lasts, and read what came between.

        Then wait for every answer.
        """
        give_up = grace_end + self._limits.request_timeout_ms / 1000 + _POLL_S
        while (now := self._clock.monotonic()) < give_up:
            if now < grace_end:
                self._read_tails([copy for copy in self._copies if copy.target.reads_between], now)
                self._produce()
            if not self._flights:
                return
            self._poll(_POLL_S)

    # -- reading ---------------------------------------------------------------------------------

    def _read_tails(self, copies_to_read: Iterable[PartitionCopy], now: float) -> None:
        if sum(copy.target.reading.held_bytes for copy in self._copies) >= self._limits.buffered_bytes:
            return
        wanting = [copy for copy in copies_to_read if copy.target.wants_tail(now)]
        target = self._network.target
        for node, copies in self._by_leader(target, Side.TARGET, wanting, now).items():
            for copy in copies:
                under = target.leader_epoch(copy.assignment.target)
                copy.target.reading.begin_under(under, again=copy.comparison.is_due)
            items = [
                FetchItem(
                    copy.assignment.target,
                    copy.target.tail.position,
                    self._limits.partition_fetch_bytes,
                    copy.target.reading.last_epoch,
                )
                for copy in copies
            ]
            ticket = target.fetch(
                node, items, committed=False, max_wait_ms=0, max_bytes=self._limits.fetch_bytes
            )
            self._expect(ticket, copies, RequestKind.TAIL, self._take_tails)

    def _take_tails(self, flight: _Flight, completion: Completion) -> None:
        size = _size(completion)
        for copy, attempt, fetched in _zip(flight, completion.fetched):
            if not copy.requests.answered(RequestKind.TAIL, attempt):
                continue
            if copy.target.reading.is_searched and self._is_left_out(flight, copy, fetched, size):
                continue
            if fetched is None or fetched.error:
                self._tail_failed(copy, fetched, completion.failure)
            else:
                with _halting(copy):
                    copy.target.take_tail(
                        fetched.records,
                        high_watermark=fetched.high_watermark,
                        diverging_end=fetched.diverging_end,
                    )

    def _is_left_out(self, flight: _Flight, copy: PartitionCopy, fetched: Fetched | None, size: int) -> bool:
        """Whether others' batches filled the answer, so that none of this partition says nothing."""
        if fetched is None or fetched.error or fetched.diverging_end is not None or flight.copies[0] is copy:
            return False
        with suppress(ProtocolError):  # who takes the records tells of what is none
            return 2 * size >= self._limits.fetch_bytes and batch_at(fetched.records, 0) is None
        return False

    def _tail_failed(self, copy: PartitionCopy, fetched: Fetched | None, failure: str | None) -> None:
        if fetched is not None and fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            if copy.target.reading.skip_last_record():
                return
            copy.halt(
                StopCause.TARGET_OUT_OF_RANGE,
                f"the target does not hold offset {copy.target.tail.position} any more, where the ledger says that "
                "this flow ended: its log was truncated, cleared or recreated; nothing was written",
            )
            return
        self._read_failed(copy, Side.TARGET, fetched, failure)

    def _fetch(self, now: float, deadline: float) -> None:
        room = self._limits.buffered_bytes - sum(copy.window.planned_bytes for copy in self._copies)
        if room <= 0 and not any(copy.target.needs_more_source for copy in self._copies):
            return
        if self._pace.room(now) == 0:
            return
        limit = self._limits.partition_fetch_bytes
        wanting = [copy for copy in self._copies if copy.wants_records(now, buffer_limit=limit)]
        self._copies.rotate(-1)  # the broker fills a response in the order asked: take turns
        of_nodes = self._by_leader(self._network.source, Side.SOURCE, wanting, now)
        asked = {
            node for node in of_nodes.keys() - self._fetching_nodes if now >= self._gathering.get(node, 0.0)
        }
        if not asked:
            return
        left_out = self._nodes_left_out(wanting)
        for node, copies in of_nodes.items():
            if node in asked:
                self._fetch_from(node, copies, waits=node not in left_out, time_left_s=deadline - now)

    def _gathered_in(self, now: float) -> float:
        """In how many seconds a fetch may be sent that waits until more records have come."""
        return min((at - now for at in self._gathering.values() if at > now), default=_IDLE_POLL_S)

    def _nodes_left_out(self, wanting: Collection[PartitionCopy]) -> Collection[int | None]:
        """Those of partitions that neither want records now nor are in a fetch already."""
        unasked = [
            copy
            for copy in self._copies
            if copy.target.is_active and not copy.requests.is_open(RequestKind.RECORDS)
        ]
        if len(unasked) == len(wanting):
            return ()
        asked = set(wanting)
        return {self._node(self._network.source, Side.SOURCE, copy) for copy in unasked if copy not in asked}

    def _fetch_from(self, node: int, copies: list[PartitionCopy], *, waits: bool, time_left_s: float) -> None:
        """A long poll delays the partitions of the node that are not in it, so it is used only when all are."""
        self._fetches += 1
        if self._puts_first and self._fetches % _IN_TURN_EVERY:
            copies = sorted(copies, key=lambda copy: not copy.assignment.comes_first)
        for copy in copies:
            copy.comparison.ask_under(self._network.source.leader_epoch(copy.assignment.source))
        room = self._pace.room(self._clock.monotonic())
        wait_ms = self._limits.max_wait_ms if waits else self._limits.busy_wait_ms
        items = [
            FetchItem(
                copy.assignment.source,
                copy.comparison.offset,
                self._limits.partition_fetch_bytes,
                copy.source.leader_epoch,
            )
            for copy in copies
        ]
        ticket = self._network.source.fetch(
            node,
            items,
            committed=True,
            max_wait_ms=max(0, min(wait_ms, int(time_left_s * 1000))),
            max_bytes=self._limits.fetch_bytes if room is None else min(self._limits.fetch_bytes, room),
            nearest=all(copy.may_read_nearest for copy in copies),
        )
        self._fetching_nodes.add(node)
        self._expect(ticket, copies, RequestKind.RECORDS, self._take_records, node=node, waits=waits)

    def _take_records(self, flight: _Flight, completion: Completion) -> None:
        self._fetching_nodes.discard(flight.node)
        size = _size(completion)
        self._pace.took(size)
        # Else each of the records that come one by one would cost both clusters a request. None waits that comes alone.
        is_small = 0 < size < self._limits.gather_bytes
        self._gathering[flight.node] = flight.sent_at + self._limits.gather_ms / 1000 if is_small else 0.0
        for copy, attempt, fetched in _zip(flight, completion.fetched):
            if not copy.requests.answered(RequestKind.RECORDS, attempt) or copy.target.stop is not None:
                continue
            if copy.comparison.is_due and self._is_left_out(flight, copy, fetched, size):
                continue
            of_replica = copy.source.replica == flight.node
            if fetched is None or fetched.error:
                is_left = of_replica and copy.source.leave_replica()
                if not (is_left and fetched is not None and fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE):
                    self._fetch_failed(copy, fetched, completion.failure)
            else:
                self._plan(copy, fetched, of_replica=of_replica)

    def _plan(self, copy: PartitionCopy, fetched: Fetched, *, of_replica: bool) -> None:
        try:
            with _halting(copy):
                copy.take_fetched(fetched, of_replica=of_replica)
        except LedgerUnavailableError as error:
            copy.troubles.pause(LEDGER, str(error), now=self._clock.monotonic())

    def _fetch_failed(self, copy: PartitionCopy, fetched: Fetched | None, failure: str | None) -> None:
        if fetched is not None and fetched.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            if copy.window.is_empty and not copy.comparison.is_out_of_range():
                copy.halt(
                    StopCause.SOURCE_OUT_OF_RANGE,
                    f"the source does not hold offset {copy.source.position} any more; nothing after it was copied",
                )
            return
        self._read_failed(copy, Side.SOURCE, fetched, failure)

    def _read_failed(
        self, copy: PartitionCopy, side: Side, fetched: Fetched | None, failure: str | None
    ) -> None:
        now = self._clock.monotonic()
        error = ErrorCode.NONE if fetched is None else fetched.error
        if side is Side.SOURCE:
            copy.comparison.ask_again()
        if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            copy.halt(StopCause.DENIED, f"the {side} denies READ on this topic; nothing was copied from it")
            return
        copy.troubles.pause(
            side, failure or f"the {side} answered a fetch with error {describe(error)}", now=now
        )
        self._refresh_at[side] = min(self._refresh_at[side], now)
        if error in TOPIC_UNKNOWN:
            self._halt_if_deleted(copy, side)

    def _halt_if_deleted(self, copy: PartitionCopy, side: Side) -> None:
        """A broker may not have heard of a new topic yet: only several answers in a row are believed."""
        if copy.troubles.failures(side) >= _DELETED_AFTER_FAILURES:
            for at in (side,) if side is Side.SOURCE else (side, WRITING):
                copy.troubles.settle_trouble(at)  # it is gone, not out of reach
            copy.halt(
                _TOPIC_DELETED[side],
                f"the {side} does not know this topic id any more: the topic was deleted or recreated",
            )

    # -- writing ---------------------------------------------------------------------------------

    def _produce(self) -> None:
        """Send one batch a partition and request while the windows have room; of slow partitions each by itself."""
        target = self._network.target
        while True:
            self._to_send = {copy: None for copy in self._to_send if _has_next(copy)}
            ready = self._by_leader(target, Side.TARGET, self._to_send, self._clock.monotonic())
            sent = [
                self._produce_to(target, line, copies)
                for node, led in ready.items()
                for line, copies in self._by_line(target, node, led)
                if self._has_window(line)
            ]
            if not any(sent):
                return

    def _by_line(
        self, target: ClusterLink, node: int, copies: list[PartitionCopy]
    ) -> Iterator[tuple[int, list[PartitionCopy]]]:
        """The requests that may be sent to a node, by connection."""
        together = copies
        if self._slow:
            together = [copy for copy in copies if not self._slow.holds(copy.assignment.target)]
            for copy in copies:
                if self._slow.holds(copy.assignment.target):
                    yield target.aside(node), [copy]
        if together:
            yield node, together

    def _has_window(self, node: int) -> bool:
        sizes = self._in_flight.get(node, [])
        return not sizes or (
            len(sizes) < self._network.target.produce_window(node)
            and sum(sizes) < self._limits.in_flight_bytes
        )

    def _produce_to(self, target: ClusterLink, node: int, copies: list[PartitionCopy]) -> bool:
        chosen: list[PartitionCopy] = []
        items: list[ProduceItem] = []
        size = 0
        for copy in copies:
            step = copy.next_copy
            if step is None or not copy.window.may_send_to(node):
                continue
            most_bytes = step.held_bytes if isinstance(step, Copy) else self._limits.merged_bytes
            if items and size + most_bytes > self._limits.produce_request_bytes:
                continue
            self._to_send[copy] = self._to_send.pop(copy)
            batch = copy.send_next(node)
            size += len(batch)
            items.append(ProduceItem(copy.assignment.target, batch))
            chosen.append(copy)
        if not items:
            return False
        ticket = target.produce(node, items, timeout_ms=self._limits.request_timeout_ms)
        self._in_flight.setdefault(node, []).append(size)
        self._expect(ticket, chosen, RequestKind.WRITE, self._take_acknowledgements, size=size, node=node)
        return True

    def _take_acknowledgements(self, flight: _Flight, completion: Completion) -> None:
        self._in_flight[flight.node].remove(flight.size)
        if completion.failure is None and len(self._copies) > 1:
            self._slow.answered(
                flight.node,
                [copy.assignment.target for copy in flight.copies],
                sent_at=flight.sent_at,
                now=self._clock.monotonic(),
                slow_s=self._limits.slow_ms / 1000,
            )
        for copy, attempt, produced in _zip(flight, completion.produced):
            if not copy.requests.answered(RequestKind.WRITE, attempt):
                continue
            with _halting(copy):
                if produced is not None and produced.error == ErrorCode.NONE:
                    copy.acknowledged(produced.base_offset, at_ms=self._clock.now_ms())
                else:
                    self._produce_failed(copy, produced, completion.failure)

    def _produce_failed(self, copy: PartitionCopy, produced: Produced | None, failure: str | None) -> None:
        now = self._clock.monotonic()
        error = ErrorCode.NONE if produced is None else produced.error
        detail = describe(error) + (
            f": {produced.message}" if produced is not None and produced.message else ""
        )
        if produced is not None and error in CUTTABLE:
            copy.refused(error, detail, indexes=produced.refused, now=now)
            return
        copy.doubt(failure or f"the target answered a produce request with error {detail}", now=now)
        if error in ID_REFUSED and copy.assignment.producer.is_drawn:
            why = f"the target takes no producer id that it has not given: error {detail}"
            copy.halt(StopCause.REFUSED, why, refuses_id=True)
        elif error == ErrorCode.INVALID_PRODUCER_EPOCH:
            copy.halt(
                StopCause.SHUT_OUT, "the target has fenced this flow's producer id; nothing more was written"
            )
        elif error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            copy.halt(
                StopCause.DENIED, "the target denies WRITE on this topic; nothing more was written to it"
            )
        elif error in REFUSED:
            copy.halt(
                StopCause.REFUSED,
                f"the target refuses the batch after source offset {copy.source.position}: error {detail}",
            )
        elif error in TRANSIENT or error in TOPIC_UNKNOWN or failure is not None:
            if error in TOPIC_UNKNOWN:
                self._halt_if_deleted(copy, Side.TARGET)
            self._refresh_at[Side.TARGET] = min(self._refresh_at[Side.TARGET], now)
        elif error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            copy.sequence_refused()
        else:
            copy.halt(
                StopCause.REFUSED,
                f"the target answered with error {detail}, which this version does not know",
            )

    # -- both ------------------------------------------------------------------------------------

    def _expect(
        self,
        ticket: int,
        copies: Sequence[PartitionCopy],
        kind: RequestKind,
        take: Callable[[_Flight, Completion], None],
        *,
        size: int = 0,
        node: int = 0,
        waits: bool = False,
    ) -> None:
        """A request is on its way; one that writes was counted batch by batch (P5)."""
        if kind is not RequestKind.WRITE:
            for copy in copies:
                copy.requests.sent(kind)
        attempts = tuple(copy.requests.attempt for copy in copies)
        sent_at = self._clock.monotonic()
        self._flights[ticket] = _Flight(tuple(copies), attempts, kind, take, sent_at, size, node, waits)

    def _by_leader(
        self, link: ClusterLink, side: Side, copies: Collection[PartitionCopy], now: float
    ) -> dict[int, list[PartitionCopy]]:
        """Group by leading node, or by the replica to read the source from in its place; partitions without a leader
        wait for the next refresh of metadata."""
        if copies:
            self._refresh_if_needed(link, side, copies, now)
        groups: dict[int, list[PartitionCopy]] = {}
        for copy in copies:
            node = self._node(link, side, copy)
            if node is None:
                self._refresh_at[side] = min(self._refresh_at[side], now + _REFRESH_PAUSE_S)
                self._without_leader(link, side, copy, now)
            else:
                groups.setdefault(node, []).append(copy)
        return groups

    @staticmethod
    def _node(link: ClusterLink, side: Side, copy: PartitionCopy) -> int | None:
        leader = link.leader(copy.assignment.side(side))
        replica = copy.replica if side is Side.SOURCE else None
        return leader if leader is None or replica is None else replica

    def _without_leader(self, link: ClusterLink, side: Side, copy: PartitionCopy, now: float) -> None:
        if link.is_denied(copy.assignment.side(side)):
            copy.halt(
                StopCause.DENIED, f"the {side} denies DESCRIBE on this topic; nothing more was copied there"
            )
        elif not link.is_deleted(copy.assignment.side(side)):
            copy.troubles.note(side, f"a partition without a leader at the {side}")
        elif now >= copy.troubles.retry_at:
            copy.troubles.pause(
                side, f"the {side} does not know the topic id of {copy.assignment.side(side).topic}", now=now
            )
            self._halt_if_deleted(copy, side)

    def _refresh_if_needed(
        self, link: ClusterLink, side: Side, copies: Collection[PartitionCopy], now: float
    ) -> None:
        if now < self._refresh_at[side]:
            return
        self._refresh_at[side] = float("inf")
        topics = {copy.assignment.side(side).topic for copy in self._copies}
        try:
            link.refresh(sorted(topics))
        except ClusterUnavailableError as error:
            for copy in copies:
                copy.troubles.pause(side, str(error), now=now)
            self._refresh_at[side] = now + _REFRESH_PAUSE_S

    def _poll(self, timeout_s: float) -> None:
        for completion in self._network.poll(max(timeout_s, 0.0)):
            flight = self._flights.pop(completion.ticket)
            flight.take(flight, completion)
            self._to_send.update(dict.fromkeys(flight.copies))
            if completion.throttle_ms:
                for copy in flight.copies:
                    copy.troubles.throttle(flight.kind.side, completion.throttle_ms)


@contextmanager
def _halting(copy: PartitionCopy) -> Iterator[None]:
    """Whatever goes wrong in a step of one partition halts that one; the others continue (G7)."""
    try:
        yield
    except (LedgerUnavailableError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  the last resort: nobody foresaw it, so nobody else can catch it
        copy.halt(
            StopCause.FAILED,
            f"this program failed at source offset {copy.source.position}, target offset {copy.target.tail.position}: "
            f"{type(error).__name__}: {error}; nothing more was copied",
        )


def _has_next(copy: PartitionCopy) -> bool:
    """Whether there is a batch to send; one may have to be cut first."""
    with _halting(copy):
        return copy.next_copy is not None
    return False


def _size(completion: Completion) -> int:
    return sum(len(part.records) for part in completion.fetched if part is not None)


def _zip(
    flight: _Flight, answers: tuple[Answer | None, ...]
) -> Iterable[tuple[PartitionCopy, int, Answer | None]]:
    """Each partition of a request with its attempt and its part of the answer; None without one."""
    padded = answers or (None,) * len(flight.copies)
    return zip(flight.copies, flight.attempts, padded, strict=True)
