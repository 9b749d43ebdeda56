"""Permissions on a cluster with an authorizer: what is missing is told, and the commands that are shown grant it."""

import os
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ledger.adapters import jvm
from ledger.operations.doctor.checks import Check, Verdict
from ledger.operations.doctor.findings import Finding, is_safe
from ledger.sandbox import ListenerSecurity, Sandbox, state
from tests.support.mirrors import FLOW, Mirror

PASSWORD_VARIABLE = "MIRROR_LEDGER_DOCTOR_PASSWORD"
LOGIN = f"""
security.protocol = "sasl_plaintext"
sasl.mechanism = "PLAIN"
sasl.username = "mirror"
sasl.password = {{ env = "{PASSWORD_VARIABLE}" }}
"""
PASSWORD = uuid.uuid4().hex
MINE = (Check.SOURCE_PERMISSIONS, Check.SOURCE_EXCESS, Check.TARGET_PERMISSIONS)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A cluster with an authorizer: where `mirror` logs in, and where everything is allowed."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    security = ListenerSecurity(
        "SASL_PLAINTEXT",
        {
            "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": f'{module} required user_mirror="{PASSWORD}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
    )
    sandbox = Sandbox(tmp_path_factory.mktemp("doctor-guarded") / "sandbox")
    try:
        servers = sandbox.up(["solo"], 1, security={"solo": security})["solo"].bootstrap_servers
        records = state.load(sandbox.root)
        assert records is not None
        yield servers, f"127.0.0.1:{records['solo'].nodes[0].ports.internal}"
    finally:
        sandbox.down()


def grant(advice: str | None, everything_allowed: str) -> None:
    """Run a command that was shown, as it is but for where and as whom an administrator connects."""
    assert advice is not None
    tool, *arguments = shlex.split(advice)
    assert tool == "kafka-acls.sh"
    assert arguments[2:4] == ["--command-config", "admin.properties"]
    jars = os.pathsep.join(str(jar) for jar in jvm.kafka_jars())
    command = [str(jvm.check_java()), "-cp", jars, "org.apache.kafka.tools.AclCommand"]
    done = subprocess.run(
        [*command, "--bootstrap-server", everything_allowed, *arguments[4:]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def permissions(mirror: Mirror) -> list[Finding]:
    return [finding for finding in mirror.examined() if finding.check in MINE]


def test_the_commands_that_are_shown_grant_what_is_missing(
    guarded: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    servers, everything_allowed = guarded
    client = AdminClient({"bootstrap.servers": everything_allowed})
    for created in client.create_topics([NewTopic("orders", 2, 1)]).values():
        created.result(30)
    mirror = Mirror.of(tmp_path, {"east": servers, "west": servers}, "orders", properties=LOGIN)

    hidden = permissions(mirror)
    assert [(f.check, f.verdict) for f in hidden[:2]] == [
        (Check.SOURCE_PERMISSIONS, Verdict.FAILED),
        (Check.SOURCE_PERMISSIONS, Verdict.WARNING),
    ]
    assert hidden[0].measured == "Describe missing on orders; nothing else is told"
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
    assert PASSWORD not in everything

    _may_write(everything_allowed, "orders")
    (excess,) = [f for f in permissions(mirror) if f.check is Check.SOURCE_EXCESS]
    assert (excess.verdict, excess.measured) == (Verdict.WARNING, "Delete, Write allowed on orders")

    # Settings of brokers are not allowed still: what rests on them is unknown, and the rest is not.
    findings = mirror.examined()
    assert not is_safe(findings, strict=False)
    unknown = {finding.check for finding in findings if finding.verdict is Verdict.UNKNOWN}
    assert unknown == {
        Check.PRODUCER_STATE,
        Check.BATCH_SIZE,
        Check.TARGET_REPLICATION,
        Check.TARGET_PARTITIONS,
        Check.TARGET_SETTINGS,
    }
    described = "kafka-acls.sh --bootstrap-server x --command-config admin.properties --add "
    described += "--allow-principal User:mirror --operation DescribeConfigs --cluster"
    grant(described, everything_allowed)
    assert is_safe(mirror.examined(probe=False), strict=False)


def _may_write(everything_allowed: str, topic: str) -> None:
    words = "kafka-acls.sh --bootstrap-server x --command-config admin.properties --add --allow-principal User:mirror"
    grant(f"{words} --operation Write --operation Delete --topic {topic}", everything_allowed)


def test_named_groups_that_may_not_be_described_are_missing(
    guarded: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    servers, everything_allowed = guarded
    words = "kafka-acls.sh --bootstrap-server x --command-config admin.properties --add --deny-principal User:mirror"
    grant(f"{words} --operation All --group secret", everything_allowed)
    mirror = Mirror.of(
        tmp_path,
        {"east": servers, "west": servers},
        "orders",
        properties=LOGIN,
        flow='groups = ["secret", "app\\\\.one"]',
    )
    told = [finding.measured for finding in permissions(mirror)]
    assert "Describe missing on group secret" in told


def test_a_wrong_password_fails_at_the_address(
    guarded: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong")
    servers, _ = guarded
    mirror = Mirror.of(tmp_path, {"east": servers, "west": servers}, "orders", properties=LOGIN)
    failed = [finding for finding in mirror.examined() if finding.check is Check.BOOTSTRAP_ADDRESS]
    assert {finding.verdict for finding in failed} == {Verdict.FAILED}
    assert all("refused the credentials" in finding.measured for finding in failed)
