"""External commands of a plan's steps: run for so long at most, and kept in the receipt with what they printed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger.domain.changeover.plans import Plan
from ledger.domain.changeover.steps import StepName
from ledger.errors import PreconditionError
from ledger.operations.changeover.applying import Waits
from ledger.ports.hooks import HookCommand, Hooks, words_of


@dataclass(frozen=True, slots=True)
class StepHooks:
    """Those of one operation: each command finds in its environment what it is run for."""

    hooks: Hooks
    plan: Plan
    operation_id: str

    def run(self, step: StepName, command: str, waits: Waits) -> Mapping[str, Any]:
        """What the receipt keeps of it. Raises `PreconditionError`, with what it printed, when it failed or took
        longer than the plan lets it."""
        seconds = self.plan.choices.hook_seconds
        environment = {
            "MIRROR_LEDGER_OPERATION": self.operation_id,
            "MIRROR_LEDGER_STEP": str(step),
            "MIRROR_LEDGER_FROM": self.plan.from_cluster,
            "MIRROR_LEDGER_TO": self.plan.to_cluster,
        }
        result = self.hooks.run(HookCommand(words_of(command), seconds, environment), waits)
        if not result.is_done:
            how = (
                f"took longer than {seconds:g} s, and was ended with what it had started"
                if result.exit_code is None
                else f"ended with {result.exit_code}"
            )
            raise PreconditionError(
                f"the hook of {step} {how}: {result.output.strip() or 'it printed nothing'}"
            )
        return {"command": command, "exit_code": result.exit_code, "output": result.output}
