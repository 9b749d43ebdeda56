"""What brokers do to a client that is configured wrongly: one row says what is wrong and what to do about just that."""

from contextlib import closing
from pathlib import Path

import pytest

from ledger.clock import SystemClock
from ledger.doctor.checks import OF_TROUBLE, Check, Verdict
from ledger.doctor.results import CheckResult, one_row_for_each_cause
from ledger.errors import Trouble
from ledger.kafka.admin import KafkaAdmin
from ledger.sandbox import Sandbox, SandboxCluster
from tests.support.guarded import SECRET, Guarded, Login, lines_of, make_keys
from tests.support.mirrors import Mirror

PLAINTEXT: Login = {}


def bad_rows(folder: Path, address: str, login: Login) -> list[CheckResult]:
    """Rows that are not safe, of a flow within the cluster at an address: source and target are one alias each."""
    mirror = Mirror.of(folder, {"east": address, "west": address}, "orders", properties=lines_of(login))
    rows = one_row_for_each_cause(mirror.examined())
    return [row for row in rows if row.verdict in (Verdict.FAILED, Verdict.UNKNOWN)]


def only_trouble(folder: Path, address: str, login: Login) -> Trouble | None:
    """What keeps both clusters away; each has one row, with the advice for that, and all else is counted in them."""
    east, west = bad_rows(folder, address, login)
    assert [row.subject for row in (east, west)] == ["cluster east", "cluster west"]
    assert {one.subject for one in east.not_made} == {"cluster east", "flow flow"} | _addresses(east, address)
    assert east.because is not None
    assert east.because.trouble is not None
    assert OF_TROUBLE[east.because.trouble] in str(east.advice)
    return east.because.trouble


def _addresses(row: CheckResult, address: str) -> set[str]:
    """Certificates are asked for by address where TLS is configured."""
    return {one.subject for one in row.not_made} & {f"cluster east at {address}"}


def test_each_wrong_configuration_is_told_as_what_it_is(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scram, plain = guarded.scram_login(guarded.new_user()), guarded.plain_login("examiner")
    _, other_authority = make_keys(tmp_path, guarded.password)
    name = guarded.over_tls.replace("127.0.0.1", "localhost")

    def told(address: str, login: Login) -> Trouble | None:
        return only_trouble(tmp_path, address, login)

    assert told(guarded.over_tls, PLAINTEXT) is Trouble.NEEDS_TLS
    assert told(guarded.without_tls, scram) is Trouble.NO_TLS
    assert told(guarded.without_tls, PLAINTEXT) is Trouble.CLOSED
    assert told(guarded.open, plain) is Trouble.MECHANISM
    assert told(guarded.without_tls, {**plain, "sasl.mechanism": "SCRAM-SHA-512"}) is Trouble.MECHANISM
    assert told(guarded.over_tls, {**scram, "ssl.ca.location": str(other_authority)}) is Trouble.AUTHORITY
    assert told(name, scram) is Trouble.HOST_NAME
    monkeypatch.setenv(SECRET, "wrong")
    assert told(guarded.without_tls, plain) is Trouble.CREDENTIALS
    assert told(guarded.over_tls, scram) is Trouble.CREDENTIALS


def test_a_secret_that_is_not_set_is_one_row_for_both_clusters(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SECRET)
    (row,) = bad_rows(tmp_path, guarded.without_tls, guarded.plain_login("examiner"))
    assert SECRET in row.measured
    assert row.advice == OF_TROUBLE[Trouble.SECRET]
    assert {"cluster east", "cluster west", "flow flow"} == {one.subject for one in row.not_made}


def test_a_missing_permission_is_one_row_with_the_command_that_grants_it(
    guarded: Guarded, tmp_path: Path
) -> None:
    """`ada` may do nothing: settings of brokers are not told to her."""
    rows = bad_rows(tmp_path, guarded.without_tls, guarded.plain_login("ada"))
    (settings,) = [row for row in rows if row.check is Check.PRODUCER_STATE]
    assert settings.verdict is Verdict.UNKNOWN
    assert "--add --allow-principal User:ada --operation DescribeConfigs --cluster" in str(settings.advice)
    assert Check.BATCH_SIZE in {one.check for one in settings.not_made} | {row.check for row in rows}


def test_a_paused_broker_is_one_row(
    broker_pair_sandbox: Sandbox, broker_pair: dict[str, SandboxCluster], tmp_path: Path
) -> None:
    servers = {alias: cluster.bootstrap_servers for alias, cluster in broker_pair.items()}
    mirror = Mirror.of(tmp_path, servers, "orders")
    with closing(KafkaAdmin("east", mirror.config.cluster("east"), SystemClock())) as admin:
        assert admin.cluster_id() == broker_pair["east"].cluster_id
    broker_pair_sandbox.pause("west")
    try:
        rows = one_row_for_each_cause(mirror.examined())
    finally:
        broker_pair_sandbox.resume("west")
    (row,) = [row for row in rows if row.verdict in (Verdict.FAILED, Verdict.UNKNOWN)]
    assert (row.subject, row.because and row.because.trouble) == ("cluster west", Trouble.NO_ANSWER)
    assert {one.subject for one in row.not_made} == {"cluster west", "flow flow"}
