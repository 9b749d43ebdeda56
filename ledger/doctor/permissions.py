"""Verdicts on permissions: what is missing, with the command that grants it, and what is too much."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ledger.doctor.checks import Check, Verdict
from ledger.doctor.measurements import Operation, Operations, Permissions
from ledger.doctor.results import CheckResult, Unmeasured, named, unknown
from ledger.words import counted, shell_word

SOURCE_TOPIC = (Operation.DESCRIBE, Operation.READ, Operation.DESCRIBE_CONFIGS)
SOURCE_TOO_MUCH = frozenset({Operation.WRITE, Operation.ALTER, Operation.DELETE, Operation.ALTER_CONFIGS})
TARGET_TOPIC = (
    *(Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.ALTER),
    *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
)
RECORDED = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
"""On the cluster: access control lists and SCRAM users need the first, client quotas the second."""
ANY_PRINCIPAL = "User:PRINCIPAL"
_NO_AUTHORIZER = "the cluster has no authorizer: everybody may do everything"


@dataclass(frozen=True, slots=True)
class Granting:
    """What a `kafka-acls.sh` command line needs to know; `principal` None: the mirror cannot tell."""

    servers: str
    principal: str | None

    def command(self, operations: Sequence[Operation], resources: Sequence[tuple[str, str | None]]) -> str:
        """The command that allows `operations`; a resource is (`topic`, name), or (`cluster`, None)."""
        words = ["kafka-acls.sh", "--bootstrap-server", self.servers, "--command-config", "admin.properties"]
        words += ["--add", "--allow-principal", self.principal or ANY_PRINCIPAL]
        for operation in operations:
            words += ["--operation", operation.value]
        for kind, name in resources:
            words += [f"--{kind}"] + ([name] if name is not None else [])
        return " ".join(map(shell_word, words))


def source(
    subject: str,
    permissions: Permissions | Unmeasured,
    topics: Sequence[str],
    granting: Granting,
    *,
    also_target: frozenset[str],
) -> Iterator[CheckResult]:
    """What the source lacks and what it allows too much; topics in `also_target` must be writable."""
    check = Check.SOURCE_PERMISSIONS
    if isinstance(permissions, Unmeasured):
        yield unknown(subject, check, permissions)
        yield unknown(subject, Check.SOURCE_EXCESS, permissions)
        return
    allowed = {topic: permissions.topics.get(topic) for topic in topics}
    found = [
        *_topics_lacking(subject, check, allowed, SOURCE_TOPIC, granting),
        *_groups(subject, check, permissions, granting),
    ]
    yield from found or [_all_allowed(subject, check, permissions, topics)]
    yield _excess(subject, permissions, {t: o for t, o in allowed.items() if t not in also_target}, granting)


def target(
    subject: str,
    permissions: Permissions | Unmeasured,
    existing: Sequence[str],
    absent: Sequence[str],
    granting: Granting,
) -> Iterator[CheckResult]:
    """What the target lacks, for topics that exist and for those that the flow has to create."""
    check = Check.TARGET_PERMISSIONS
    if isinstance(permissions, Unmeasured):
        yield unknown(subject, check, permissions)
        return
    topics = [*existing, *absent]
    allowed = {topic: permissions.topics.get(topic) for topic in topics}
    found = [
        *_topics_lacking(subject, check, allowed, TARGET_TOPIC, granting),
        *_creation(subject, permissions, absent, granting),
        *_idempotence(subject, permissions, granting),
        *_groups(subject, check, permissions, granting),
    ]
    yield from found or [_all_allowed(subject, check, permissions, topics)]


def recorded(
    subject: str, cluster: str, permissions: Permissions | Unmeasured, granting: Granting
) -> CheckResult:
    """Whether the recorder of a cluster may read all kinds of permissions; records are copied in any case."""
    check = Check.RECORDED_PERMISSIONS
    if isinstance(permissions, Unmeasured):
        return unknown(subject, check, permissions)
    lacking = [operation for operation in RECORDED if operation not in (permissions.cluster or ())]
    if not permissions.enforced or not lacking:
        return CheckResult(subject, check, Verdict.OK, f"cluster {cluster}: all kinds")
    measured = f"{_names(lacking)} missing on cluster {cluster}: what it allows to whom is not all recorded"
    return CheckResult(
        subject, check, Verdict.WARNING, measured, granting.command(lacking, [("cluster", None)])
    )


def _topics_lacking(
    subject: str,
    check: Check,
    allowed: Mapping[str, Operations | None],
    needed: Sequence[Operation],
    granting: Granting,
) -> Iterator[CheckResult]:
    """One result for each set of operations that some topics lack."""
    by_lack: dict[tuple[Operation, ...], list[str]] = defaultdict(list)
    for topic, operations in sorted(allowed.items()):
        by_lack[tuple(op for op in needed if operations is None or op not in operations)].append(topic)
    by_lack.pop((), None)
    for lack, topics in by_lack.items():
        if allowed[topics[0]] is None:
            measured = f"Describe missing on {named(topics)}; nothing else is reported"
        else:
            measured = f"{_names(lack)} missing on {named(topics)}"
        advice = granting.command(lack, [("topic", topic) for topic in topics])
        yield CheckResult(subject, check, Verdict.FAILED, measured, advice)


def _groups(
    subject: str, check: Check, permissions: Permissions, granting: Granting
) -> Iterator[CheckResult]:
    if permissions.hidden_groups:
        measured = f"Describe missing on group {named(permissions.hidden_groups)}"
        advice = granting.command(
            [Operation.DESCRIBE], [("group", group) for group in permissions.hidden_groups]
        )
        yield CheckResult(subject, check, Verdict.FAILED, measured, advice)
    elif not permissions.groups_seen:
        measured = (
            "Describe is not allowed on all groups: commits of groups that cannot be seen are not recorded"
        )
        advice = granting.command([Operation.DESCRIBE], [("group", "*")])
        yield CheckResult(subject, check, Verdict.WARNING, measured, advice)


def _creation(
    subject: str, permissions: Permissions, absent: Sequence[str], granting: Granting
) -> Iterator[CheckResult]:
    if permissions.cluster is not None and Operation.CREATE in permissions.cluster:
        return
    lacking = [name for name in absent if Operation.CREATE not in (permissions.topics.get(name) or ())]
    if lacking:
        measured = f"Create missing, on the cluster and on {named(lacking)}, which the flow has to create"
        advice = granting.command([Operation.CREATE], [("topic", topic) for topic in lacking])
        yield CheckResult(subject, Check.TARGET_PERMISSIONS, Verdict.FAILED, measured, advice)


def _idempotence(subject: str, permissions: Permissions, granting: Granting) -> Iterator[CheckResult]:
    """A producer id is given to whoever may write idempotently, or write to any topic at all."""
    granted = permissions.cluster is not None and Operation.IDEMPOTENT_WRITE in permissions.cluster
    writes = any(Operation.WRITE in (operations or ()) for operations in permissions.topics.values())
    if not granted and not writes:
        measured = "IdempotentWrite missing on the cluster, and Write on every topic: no producer id is given"
        advice = granting.command([Operation.IDEMPOTENT_WRITE], [("cluster", None)])
        yield CheckResult(subject, Check.TARGET_PERMISSIONS, Verdict.FAILED, measured, advice)


def _excess(
    subject: str, permissions: Permissions, allowed: Mapping[str, Operations | None], granting: Granting
) -> CheckResult:
    check = Check.SOURCE_EXCESS
    if not permissions.enforced:
        advice = "the mirror never writes to a source; an authorizer would prove it"
        return CheckResult(subject, check, Verdict.WARNING, _NO_AUTHORIZER, advice)
    too_much = {topic: SOURCE_TOO_MUCH & operations for topic, operations in allowed.items() if operations}
    excessive = sorted(topic for topic, operations in too_much.items() if operations)
    if not excessive:
        return CheckResult(
            subject, check, Verdict.OK, f"{counted(len(allowed), 'topic')}: nothing but reading"
        )
    operations = sorted(frozenset().union(*too_much.values()))
    who = granting.principal or "the principal"
    advice = f"take {_names(operations)} from {who}: the mirror never writes to a source"
    return CheckResult(
        subject, check, Verdict.WARNING, f"{_names(operations)} allowed on {named(excessive)}", advice
    )


def _all_allowed(subject: str, check: Check, permissions: Permissions, topics: Sequence[str]) -> CheckResult:
    measured = (
        f"{counted(len(topics), 'topic')}: all that is needed" if permissions.enforced else _NO_AUTHORIZER
    )
    return CheckResult(subject, check, Verdict.OK, measured)


def _names(operations: Sequence[Operation]) -> str:
    return ", ".join(operation.value for operation in operations)
