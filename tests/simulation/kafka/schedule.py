"""Simulated time: events in a fixed order, and actors that take turns, so that a seed repeats a run.

An actor is a thread, but only one of them runs at any moment: whoever waits hands over to the first that
may go on, and when nobody may, the time moves to the next event. Nothing here looks at the real clock.
"""

import heapq
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

Action = Callable[[], None]
Condition = Callable[[], bool]
_STARTED_AT_MS = 1_700_000_000_000


class _Waiter:
    """Somebody who goes on when `ready` says so, or at `until` at the latest."""

    __slots__ = ("_turn", "ready", "until")

    def __init__(self, until: float, ready: Condition) -> None:
        self.until = until
        self.ready = ready
        self._turn = threading.Lock()
        self._turn.acquire()

    def give_turn(self) -> None:
        self._turn.release()

    def await_turn(self) -> None:
        self._turn.acquire()


@dataclass(slots=True)
class Actor:
    """Something that runs beside others in simulated time; `error` is what ended it."""

    name: str
    done: bool = False
    error: BaseException | None = None


class Schedule:
    """Implements `Clock`; seconds since the start of the simulation."""

    def __init__(self) -> None:
        self._now = 0.0
        self._events: list[tuple[float, int, Action]] = []
        self._waiters: dict[int, _Waiter] = {}
        self._numbers = count()
        self._failure: BaseException | None = None
        self._jumped_ms = 0

    def now_ms(self) -> int:
        return _STARTED_AT_MS + self._jumped_ms + int(self._now * 1000)

    def jump(self, seconds: float) -> None:
        """Wall time passes in which nothing happens; deadlines stay where they are."""
        self._jumped_ms += int(seconds * 1000)

    def monotonic(self) -> float:
        return self._now

    def after(self, delay_s: float, action: Action) -> None:
        """Have something happen later; equal times happen in the order of the calls."""
        heapq.heappush(self._events, (self._now + delay_s, next(self._numbers), action))

    def wait(self, seconds: float, ready: Condition = lambda: False) -> None:
        """Let time pass until `ready`, or for `seconds`; others run meanwhile.

        However little is asked for, some passes, as by a real clock: who waits for a deadline would wait for ever else.
        """
        until = self._now + seconds
        if seconds > 0:
            until = max(until, math.nextafter(self._now, math.inf))
        waiter = _Waiter(until, ready)
        number = next(self._numbers)
        self._waiters[number] = waiter
        self._hand_over(waiter)
        del self._waiters[number]
        if self._failure is not None:
            raise self._failure

    def spawn(self, name: str, action: Action) -> Actor:
        """Start an actor; it takes its first turn when the caller waits."""
        actor = Actor(name)
        waiter = _Waiter(self._now, lambda: True)
        number = next(self._numbers)
        self._waiters[number] = waiter
        threading.Thread(
            target=self._perform, args=(actor, action, number, waiter), name=name, daemon=True
        ).start()
        return actor

    def _perform(self, actor: Actor, action: Action, number: int, waiter: _Waiter) -> None:
        waiter.await_turn()
        del self._waiters[number]
        try:
            action()
        except BaseException as error:  # noqa: BLE001  whoever joins the actor looks at it
            actor.error = error
        actor.done = True
        self._next_waiter().give_turn()

    def join(self, actor: Actor, *, seconds: float) -> None:
        """Wait for an actor to end and raise what ended it."""
        self.wait(seconds, lambda: actor.done)
        if actor.error is not None:
            raise actor.error
        if not actor.done:
            raise TimeoutError(f"{actor.name} was not done after {seconds} simulated seconds")

    def _hand_over(self, waiter: _Waiter) -> None:
        chosen = self._next_waiter()
        if chosen is not waiter:
            chosen.give_turn()
            waiter.await_turn()

    def _next_waiter(self) -> _Waiter:
        """Make events happen until somebody may go on."""
        while True:
            earliest = float("inf")
            for waiter in self._waiters.values():
                if waiter.until <= self._now or self._failure is not None or waiter.ready():
                    return waiter
                if waiter.until < earliest:
                    earliest = waiter.until
            self._advance(earliest)

    def _advance(self, earliest: float) -> None:
        if self._events and self._events[0][0] <= earliest:
            self._now, _, action = heapq.heappop(self._events)
            self._happen(action)
        else:
            self._now = earliest

    def _happen(self, action: Action) -> None:
        """An event that fails ends the simulation: it is raised wherever somebody waits."""
        try:
            action()
        except BaseException as error:  # noqa: BLE001  raised by `wait`
            self._failure = self._failure or error
            self._events.clear()
