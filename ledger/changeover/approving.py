"""Approvals: people who have read a plan and stand behind it, each by a signature with a key of their own.

An approval is of one recording of one plan: its text has the operation id of the row that was read, and the hash of all
that the plan would do. So a plan that is made again, or that somebody has altered, needs new ones. Who made the plan
counts as one of the people where `[approvals]` names the account that made it.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ledger.changeover.plans import approve_command, digest_of, recorded_plan
from ledger.config.mirror import ApprovalsConfig
from ledger.context import Context
from ledger.errors import PreconditionError, UnsafeError, UsageError
from ledger.facts.changeovers import PlanApproved, PlanRecorded
from ledger.facts.operations import OperationKind
from ledger.facts.tables import OPERATIONS, Row
from ledger.signatures import Signer, fingerprint, is_signed
from ledger.words import some_of


@dataclass(frozen=True, slots=True)
class Approvals:
    """Of one plan: how many people are `asked` for, and who stands behind it; `void`: what does not count, and why."""

    asked: int = 1
    people: tuple[str, ...] = ()
    void: tuple[str, ...] = ()

    @property
    def lacking(self) -> int:
        """How many people have to approve it still."""
        return 0 if self.asked <= 1 else max(0, self.asked - len(self.people))

    @property
    def words(self) -> str:
        """Who stands behind it, and what does not count."""
        stand = "stands" if len(self.people) <= 1 else "stand"
        return "; ".join([f"{', '.join(self.people) or 'nobody'} {stand} behind it", *self.void])

    def require(self, plan_id: str) -> None:
        """Raises `UnsafeError` while people are lacking."""
        if self.lacking:
            raise UnsafeError(
                f"plan {plan_id} asks for {self.asked} people, and {self.words}; nothing was done. "
                f"{self.lacking} more: {approve_command(plan_id)}, by another person; then again"
            )


def approvals_of(config: ApprovalsConfig, plan: Row, rows: Iterable[Row]) -> Approvals:
    """Of what `plan`, a row of that kind, has recorded; `rows`: some of them are of the kind `plan_approved`."""
    if config.plan <= 1:
        return Approvals()
    people = {name for name in config.people if config.account(name) == plan["operator"]}
    void: dict[str, None] = {}
    for row in rows:
        if row["kind"] == OperationKind.PLAN_APPROVED:
            approval = PlanApproved.of_row(row)
            if approval.planned_by != plan["operation_id"]:
                continue
            if why := _not_valid(config, approval, plan):
                void[f"the approval of {approval.person} does not count: {why}"] = None
            else:
                people.add(approval.person)
    return Approvals(config.plan, tuple(sorted(people)), tuple(void))


def last_plan(rows: Iterable[Row], plan_id: str) -> Row:
    """The row that has recorded a plan last, of rows of which some are of the kind `plan`; there is one."""
    plans = [row for row in rows if row["kind"] == OperationKind.PLAN]
    return next(row for row in reversed(plans) if PlanRecorded.of_row(row).plan_id == plan_id)


def approve_plan(context: Context, plan_id: str, key: str) -> tuple[str, str | None]:
    """Record that the person who has this private key (PEM) stands behind a plan; returns who that is, and the
    operation id, None: they had approved it before.

    Raises `UsageError` for a plan that the ledger does not have, and a key of nobody whom `[approvals]` names;
    `PreconditionError` where the person has made the plan; `UnsafeError` for one with blockers.
    """
    config, at = context.config.approvals, context.snapshot()
    kinds = (OperationKind.PLAN, OperationKind.PLAN_APPROVED)
    rows = at.rows(OPERATIONS.name, [("kind", "in", kinds)])
    read, _ = recorded_plan([row for row in rows if row["kind"] == OperationKind.PLAN], plan_id)
    signer = Signer(key, "the key")
    person = _person_of(config, signer)
    plan = last_plan(rows, plan_id)
    if read.blockers:
        raise UnsafeError(
            f"plan {plan_id} is blocked: {', '.join(read.blockers)}; nothing was recorded: plan again"
        )
    if config.account(person) == plan["operator"]:
        raise PreconditionError(
            f"{person} has made plan {plan_id}, and stands behind it by that; nothing was recorded. Another person "
            "approves it"
        )
    if person in approvals_of(config, plan, rows).people:
        return person, None
    text = _text(plan, person)
    signature = base64.b64encode(signer.sign(text)).decode()
    approval = PlanApproved(
        plan_id=plan_id,
        planned_by=plan["operation_id"],
        person=person,
        key=signer.public.decode(),
        signature=signature,
    )
    return person, context.record(approval)


def signed_files(rows: Iterable[Row], plan_ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """What openssl verifies approvals of plans by: text, signature and public key, files by name, of rows of the kinds
    `plan` and `plan_approved`."""
    operations, asked = list(rows), set(plan_ids)
    plans = {row["operation_id"]: row for row in operations if row["kind"] == OperationKind.PLAN}
    for row in operations:
        if row["kind"] != OperationKind.PLAN_APPROVED:
            continue
        approval = PlanApproved.of_row(row)
        if approval.plan_id in asked and approval.planned_by in plans:
            name = f"approvals/{row['operation_id']}"
            yield f"{name}.txt", _text(plans[approval.planned_by], approval.person)
            yield f"{name}.pem", approval.key.encode()
            yield f"{name}.sig", _decoded(approval.signature)


def _text(plan: Row, person: str) -> bytes:
    """What is signed (PROTOCOL.md, "Approvals")."""
    recorded = PlanRecorded.of_row(plan)
    lines = (
        "approval of a plan, format 1",
        f"plan {recorded.plan_id}",
        f"recorded {plan['operation_id']}",
        f"content {digest_of(recorded.plan)}",
        f"person {person}",
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _not_valid(config: ApprovalsConfig, approval: PlanApproved, plan: Row) -> str | None:
    """Why an approval does not count; None: it does."""
    known = config.people.get(approval.person)
    if known is None:
        return "[approvals] names nobody of that name"
    if _is_other_key(approval.key, known.key):
        return "it is by another key than [approvals] has"
    if not is_signed(_text(plan, approval.person), _decoded(approval.signature), known.key):
        return "its signature is not of this plan"
    return None


def _is_other_key(pem: str, known: str) -> bool:
    try:
        return fingerprint(pem) != fingerprint(known)
    except UsageError:  # the row has none at all
        return True


def _decoded(signature: str) -> bytes:
    try:
        return base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _person_of(config: ApprovalsConfig, signer: Signer) -> str:
    own = fingerprint(signer.public.decode())
    for name, person in config.people.items():
        if fingerprint(person.key) == own:
            return name
    named = some_of(sorted(config.people), "person", at_most=10) or "nobody"
    raise UsageError(
        f"the key is of nobody whom [approvals.people] names ({named}), for it has none of their public keys; nothing "
        "was recorded"
    )
