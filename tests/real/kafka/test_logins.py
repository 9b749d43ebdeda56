"""Logins that people have, each on the copy's connections, on those of administration and in doctor, on a real broker.

The broker has two doors: TLS with a certificate of the client, and tokens or passwords whose logins end after seconds.
"""

import os
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledger.clock import SystemClock
from ledger.config.values import SecretReference
from ledger.doctor.checks import OF_TROUBLE, Check, Verdict
from ledger.doctor.results import one_row_for_each_cause
from ledger.errors import MirrorLedgerError, Trouble
from ledger.kafka.admin import KafkaAdmin
from tests.support.copies import config_of
from tests.support.doors import ALIAS, CLIENT_SECRET, LOGIN_LASTS_MS, Doors, stores
from tests.support.guarded import SECRET, Login, lines_of, plain_login
from tests.support.key_stores import KEY_PASSWORD, STORE_PASSWORD, Authority
from tests.support.mirrors import Mirror
from tests.support.shops import beside


def copied(doors: Doors, address: str, login: Login, records: int = 300) -> None:
    """Records reach a consumer of the target, and administration and doctor come in the same way."""
    with doors.pair(address, login) as pair:
        pair.produce(records)
        pair.run()
        assert pair.assert_same() == records
        with closing(KafkaAdmin(ALIAS, config_of(ALIAS, address, login), SystemClock())) as admin:
            assert pair.topics["source"] in admin.topics()


def examined(folder: Path, address: str, login: Login) -> list[Any]:
    mirror = Mirror.of(folder, {"east": address, "west": address}, "orders", properties=lines_of(login))
    return mirror.examined()


def trouble(folder: Path, address: str, login: Login) -> Trouble | None:
    """The one cause that doctor has of each cluster, with its own advice; the copy's connections have it too."""
    rows = one_row_for_each_cause(examined(folder, address, login))
    bad = [
        row for row in rows if row.verdict in (Verdict.FAILED, Verdict.UNKNOWN) and row.because is not None
    ]
    causes = {row.because.trouble for row in bad if row.because is not None}
    (cause,) = causes
    assert cause is not None
    assert all(OF_TROUBLE[cause] in str(row.advice) and "\n" not in row.measured for row in bad)
    for name in (CLIENT_SECRET, STORE_PASSWORD, KEY_PASSWORD):
        assert not any(os.environ[name] in row.measured for row in bad), "a secret is shown"
    with closing(KafkaAdmin(ALIAS, config_of(ALIAS, address, login), SystemClock(), timeout_s=3)) as admin:
        with pytest.raises(MirrorLedgerError) as refused:
            admin.topics()
        assert refused.value.trouble is cause
    return cause


# -- Certificates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pem", "pkcs12", "jks"])
def test_certificates_are_shown_from_files_and_stores_with_passwords(
    doors: Doors, kind: str, tmp_path: Path
) -> None:
    login = stores(doors, kind)
    copied(doors, doors.over_tls, login)
    rows = {row.check: row for row in examined(tmp_path, doors.over_tls, login)}
    assert rows[Check.CLIENT_CERTIFICATE].measured.startswith("expires in 1 d 23 h")
    assert rows[Check.BOOTSTRAP_ADDRESS].verdict is Verdict.OK


def test_certificates_that_are_not_taken_are_one_cause_each(
    doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(login: Login) -> Trouble | None:
        return trouble(tmp_path, doors.over_tls, login)

    other = Authority("another")
    good = stores(doors, "pkcs12")
    assert told(stores(doors, "pkcs12", own=other.signed("mirror"))) is Trouble.OWN_CERTIFICATE
    expired = stores(doors, "pkcs12", own=doors.authority.signed("mirror", days=-1))
    assert told(expired) is Trouble.OWN_CERTIFICATE
    admin = KafkaAdmin(ALIAS, config_of(ALIAS, doors.over_tls, expired), SystemClock())
    with closing(admin), pytest.raises(MirrorLedgerError, match="shown that of CN=mirror, which expired at"):
        admin.topics()
    none = {key: value for key, value in good.items() if "keystore" not in key}
    assert told(none) is Trouble.OWN_CERTIFICATE
    assert told(stores(doors, "pkcs12", trusted=other)) is Trouble.AUTHORITY
    assert told({**good, "ssl.verification.strict": "true"}) is Trouble.STRICT
    assert told({**good, "ssl.keystore.type": "PEM"}) is Trouble.TLS_FILES
    in_jks = stores(doors, "jks")
    for name in (STORE_PASSWORD, KEY_PASSWORD):
        with monkeypatch.context() as wrong:
            wrong.setenv(name, f"wrong-{name}")
            assert told(in_jks) is Trouble.TLS_FILES


# -- Tokens ----------------------------------------------------------------------------------------


def test_tokens_of_a_provider_let_the_mirror_in(doors: Doors, tmp_path: Path) -> None:
    issued = doors.tokens.issued
    login = doors.token_login()
    copied(doors, doors.by_token.address, login)
    rows = {row.check: row for row in examined(tmp_path, doors.by_token.address, login)}
    assert rows[Check.BOOTSTRAP_ADDRESS].verdict is Verdict.OK
    assert doors.tokens.issued == issued + 1, "one token serves all connections of a process"


def test_a_token_file_is_read_again_at_each_login(doors: Doors, tmp_path: Path) -> None:
    file = tmp_path / "token"
    login: Login = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
    }
    file.write_text(doors.tokens.token(lasts_s=-5))
    assert trouble(tmp_path, doors.by_token.address, login) is Trouble.TOKEN_EXPIRED
    file.write_text(doors.tokens.token() + "\n")
    copied(doors, doors.by_token.address, login)


def test_tokens_that_do_not_come_or_are_not_taken_are_one_cause_each(
    doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(**other: str | SecretReference) -> Trouble | None:
        login = doors.token_login() | {name.replace("_", "."): value for name, value in other.items()}
        return trouble(tmp_path, doors.by_token.address, login)

    endpoint = "sasl.oauthbearer.token.endpoint.url"
    monkeypatch.setattr(doors.tokens, "audience", "somebody-else")
    assert (
        told(sasl_oauthbearer_extensions="a=b", sasl_oauthbearer_client_id="nobody") is Trouble.TOKEN_CLIENT
    )
    assert told(https_ca_location=str(doors.folder / "authority.pem")) is Trouble.TOKEN_ENDPOINT
    assert told(**{endpoint: "https://127.0.0.1:1/token"}) is Trouble.TOKEN_ENDPOINT
    assert told(**{endpoint: doors.tokens.url.replace("/token", "/other")}) is Trouble.TOKEN_ENDPOINT
    assert told(
        sasl_mechanism="SCRAM-SHA-512", sasl_username="x", sasl_password=SecretReference(env=SECRET)
    ) is (Trouble.MECHANISM)
    from ledger.kafka import tokens

    tokens._endpoint_tokens.cache_clear()
    assert told() is Trouble.TOKEN
    monkeypatch.undo()


# -- Logins that end -------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["password", "token"])
def test_logins_are_renewed_on_the_same_connections(doors: Doors, by: str) -> None:
    """For three lives of a login: no connection is made anew, no answer is lost, so no tail is read again."""
    login = doors.token_login() if by == "token" else plain_login("mirror", SecretReference(env=SECRET))
    address = doors.by_token.address
    admin = KafkaAdmin(ALIAS, config_of(ALIAS, address, login), SystemClock())
    with doors.pair(address, login) as pair, closing(admin):
        early: list[int] = []

        def write_and_ask(ended: threading.Event) -> None:
            began_at = time.monotonic()
            while not ended.wait(0.1):
                pair.produce(20)
                admin.topics()
                if not early and time.monotonic() - began_at > 0.75 * LOGIN_LASTS_MS / 1000:
                    early.append(doors.by_token.accepted)

        with beside(write_and_ask):
            (result,) = pair.run(seconds=4 * LOGIN_LASTS_MS / 1000, to_the_end=False)
            late = doors.by_token.accepted
        assert early == [late]
        assert result.stop is None
        assert not any(sync.recovered for sync in pair.syncs)
        pair.run()
        assert pair.assert_same() > 200
