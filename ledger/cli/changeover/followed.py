"""Where people follow an apply or an undo: a line for each step, what it waits for, and what people are asked."""

import time

from ledger.changeover.plans import StepName, apply_command
from ledger.changeover.receipts import StepReports, Waits
from ledger.cli.printing import confirmed, say
from ledger.clock import repeated
from ledger.errors import PreconditionError
from ledger.terminal import StatusLine
from ledger.words import elapsed, without_figures

_SHOWN_ALIVE_EVERY_S = 1.0
_SAID_EVERY_S = 30.0


class Followed:
    """A terminal, or a file: what is animated is animated on a terminal alone. `status` None: on stderr."""

    def __init__(self, status: StatusLine | None = None) -> None:
        self._began: dict[StepName, float] = {}
        self._said = -_SAID_EVERY_S, ""
        self._asks = False
        self._status = StatusLine() if status is None else status

    @property
    def reports(self) -> StepReports:
        return StepReports(self._begins, self._waits, self._ends)

    def ask(self, what: str, waits: Waits) -> str:
        """What the receipt says of the answer; raises `PreconditionError` for a no.

        As long as nobody answers the process shows that it is alive, so nobody else takes its work over.
        """
        self._status.stop()  # it would draw over the question
        self._asks = True
        asked = f"a person is asked whether {what}"
        with repeated(lambda: waits(asked), every_s=_SHOWN_ALIVE_EVERY_S, failed=say):
            said_yes = confirmed(f"{what}?")
        self._asks = False
        self._status.start()
        if not said_yes:
            raise PreconditionError(
                f"not confirmed: {what}. Continue when it is so: {apply_command('PLAN_ID')}"
            )
        return "confirmed by the operator"

    def _begins(self, step: StepName) -> None:
        self._began[step] = time.monotonic()
        self._status.update(step.description)
        self._status.start()

    def _waits(self, step: StepName, words: str) -> None:
        """A line when it waits for something else than before, and now and then."""
        self._status.update(f"{step.description}: {words}")
        now, kind = time.monotonic(), f"{step} {without_figures(words)}"
        if self._asks or (kind == self._said[1] and now - self._said[0] < _SAID_EVERY_S):
            return
        self._said = now, kind
        self._status.stop()
        say(f"{elapsed(now - self._began.get(step, now))}  {step}: {words}")
        if step in self._began:
            self._status.start()

    def _ends(self, step: StepName, words: str, is_done: bool) -> None:
        self._status.stop()
        now = time.monotonic()
        outcome = "" if is_done else "FAILED: "
        say(f"{elapsed(now - self._began.get(step, now))}  {step}: {outcome}{words}")
