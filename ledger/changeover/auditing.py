"""The audits of an apply: of the ledger as it is when it begins, and of what came since when it is about to end.

Those of a long ledger take a while. So they run beside the steps that come before producers are stopped, and what is
left for the time in which applications have no cluster to write to is about a few rounds: that runs beside the steps
that come once the mirror has stopped.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from ledger.context import Context
from ledger.errors import UnsafeError
from ledger.facts.cuts import Cut
from ledger.store import answers
from ledger.store.snapshots import DeltaSnapshot
from ledger.words import counted


@dataclass(frozen=True, slots=True)
class LedgerAudit:
    """`cut`: of the ledger when it was begun; `found`, once it is known: by audit how many rows break its invariant."""

    cut: Cut
    found: Future[dict[str, int]]

    @classmethod
    def begun(cls, context: Context) -> "LedgerAudit":
        """Of the ledger of now, in a thread of its own."""
        at = context.snapshot()
        with _thread() as thread:
            return cls(at.cut, thread.submit(answers.audit_rows, at))

    def require_kept(self) -> None:
        """Wait for it; raises `UnsafeError` where an invariant is broken."""
        require_none(self.found.result())


def audit_rest_beside(context: Context, begun: LedgerAudit | None) -> Future[tuple[DeltaSnapshot, list[str]]]:
    """What `audit_rest` returns, in a thread of its own."""
    with _thread() as thread:
        return thread.submit(audit_rest, context, begun)


@contextmanager
def _thread() -> Iterator[ThreadPoolExecutor]:
    """One that does what it is given in the body, and is not waited for."""
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="audit")
    try:
        yield thread
    finally:
        thread.shutdown(wait=False)


def audit_rest(context: Context, begun: LedgerAudit | None) -> tuple[DeltaSnapshot, list[str]]:
    """The ledger of now, and the audits that it passes; raises `UnsafeError` where it breaks an invariant.

    Where one of the ledger was `begun` before, what came since is audited; where that seems broken, all of it.
    """
    at = context.snapshot()
    if begun is not None:
        begun.require_kept()
        since = answers.audit_rows(at, begun.cut)
        if not any(since.values()):
            return at, list(begun.found.result())
    found = answers.audit_rows(at)
    require_none(found)
    return at, list(found)


def require_none(found: Mapping[str, int]) -> None:
    """Raise `UnsafeError` where rows break an invariant."""
    broken = {name: rows for name, rows in found.items() if rows}
    if broken:
        said = ", ".join(f"{name}: {counted(rows, 'row')}" for name, rows in broken.items())
        raise UnsafeError(f"the ledger breaks an invariant ({said}): answers from it may be wrong")
