"""Permissions on a cluster with an authorizer: what is missing is told, and the commands that are shown grant it."""

import shlex
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import ACLOperation, ResourceType

from ledger.doctor.checks import Check, Verdict
from ledger.doctor.results import CheckResult, is_safe
from tests.support.guarded import SECRET, Guarded, lines_of
from tests.support.kafka_tools import tool
from tests.support.mirrors import FLOW, Mirror

USER = "examiner"
MINE = (Check.SOURCE_PERMISSIONS, Check.SOURCE_EXCESS, Check.TARGET_PERMISSIONS)


def mirror_of(guarded: Guarded, folder: Path, *, flow: str = "") -> Mirror:
    """A flow within the guarded cluster."""
    servers = {"east": guarded.without_tls, "west": guarded.without_tls}
    return Mirror.of(folder, servers, "orders", properties=lines_of(guarded.plain_login(USER)), flow=flow)


def grant(advice: str | None, everything_allowed: str) -> None:
    """Run a command that was shown, as it is but for where and as whom an administrator connects."""
    assert advice is not None
    name, *arguments = shlex.split(advice)
    assert name == "kafka-acls.sh"
    assert arguments[2:4] == ["--command-config", "admin.properties"]
    done = subprocess.run(
        [*tool(name), "--bootstrap-server", everything_allowed, *arguments[4:]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def permissions(mirror: Mirror) -> list[CheckResult]:
    return [finding for finding in mirror.examined() if finding.check in MINE]


def test_the_commands_that_are_shown_grant_what_is_missing(guarded: Guarded, tmp_path: Path) -> None:
    everything_allowed = guarded.open
    client = AdminClient({"bootstrap.servers": everything_allowed})
    for created in client.create_topics([NewTopic("orders", 2, 1)]).values():
        created.result(30)
    mirror = mirror_of(guarded, tmp_path)

    hidden = permissions(mirror)
    assert [(f.check, f.verdict) for f in hidden[:2]] == [
        (Check.SOURCE_PERMISSIONS, Verdict.FAILED),
        (Check.SOURCE_PERMISSIONS, Verdict.WARNING),
    ]
    assert hidden[0].measured == "Describe missing on orders; nothing else is reported"
    assert hidden[0].subject == f"flow {FLOW}"
    grant(hidden[0].advice, everything_allowed)

    seen = {(f.check, f.measured.split(" missing")[0]): f for f in permissions(mirror)}
    target = [finding for (check, _), finding in seen.items() if check is Check.TARGET_PERMISSIONS]
    assert [finding.measured.split(" missing")[0] for finding in target] == [
        "Describe",
        "Create",
        "IdempotentWrite",
        "Describe is not allowed on all groups: commits of groups that cannot be seen are not recorded",
    ]
    assert "east.orders" in target[0].measured
    for finding in target:
        grant(finding.advice, everything_allowed)

    granted = permissions(mirror)
    assert [(f.check, f.verdict) for f in granted] == [
        (Check.SOURCE_PERMISSIONS, Verdict.OK),
        (Check.SOURCE_EXCESS, Verdict.OK),
        (Check.TARGET_PERMISSIONS, Verdict.OK),
    ]
    everything = "\n".join(f"{f.measured} {f.advice}" for f in hidden + granted)
    assert guarded.password not in everything

    guarded.allow(USER, "orders", ACLOperation.WRITE, ACLOperation.DELETE)
    (excess,) = [f for f in permissions(mirror) if f.check is Check.SOURCE_EXCESS]
    assert (excess.verdict, excess.measured) == (Verdict.WARNING, "Delete, Write allowed on orders")

    # Settings of brokers are not allowed still: what rests on them is unknown, and the rest is not.
    findings = mirror.examined()
    assert not is_safe(findings, strict=False)
    unknown = {finding.check for finding in findings if finding.verdict is Verdict.UNKNOWN}
    assert unknown == {
        Check.TARGET_WRITERS,
        Check.PRODUCER_STATE,
        Check.BATCH_SIZE,
        Check.RECORD_PATH,
        Check.TARGET_REPLICATION,
        Check.TARGET_PARTITIONS,
        Check.TARGET_SETTINGS,
    }
    [writers] = [finding for finding in findings if finding.check is Check.TARGET_WRITERS]
    grant(writers.advice, everything_allowed)
    guarded.allow(USER, "kafka-cluster", ACLOperation.DESCRIBE_CONFIGS, kind=ResourceType.CLUSTER)
    assert is_safe(mirror.examined(probe=False), strict=False)


def test_named_groups_that_may_not_be_described_are_missing(guarded: Guarded, tmp_path: Path) -> None:
    words = "kafka-acls.sh --bootstrap-server x --command-config admin.properties --add --deny-principal User:examiner"
    grant(f"{words} --operation All --group secret", guarded.open)
    guarded.allow(USER, "app.one", ACLOperation.DESCRIBE, kind=ResourceType.GROUP)
    mirror = mirror_of(guarded, tmp_path, flow='groups = ["secret", "app\\\\.one"]')
    told = [finding.measured for finding in permissions(mirror)]
    assert "Describe missing on group secret" in told


def test_a_wrong_password_fails_at_the_address(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, "wrong")
    mirror = mirror_of(guarded, tmp_path)
    failed = [finding for finding in mirror.examined() if finding.check is Check.BOOTSTRAP_ADDRESS]
    assert {finding.verdict for finding in failed} == {Verdict.FAILED}
    assert all("refused the login" in finding.measured for finding in failed)
