"""A broker with two doors: TLS with a certificate of the client, and tokens or passwords for logins that end soon."""

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger.config.values import SecretReference
from ledger.sandbox import ListenerSecurity, Sandbox, state
from tests.support.copies import Pair
from tests.support.forwarder import Forwarder, forwarding
from tests.support.guarded import PLAIN, SECRET, Login
from tests.support.key_stores import (
    KEY_PASSWORD,
    STORE_PASSWORD,
    Authority,
    as_jks,
    as_pem_files,
    as_pkcs12,
)
from tests.support.token_servers import AUDIENCE, CLIENT, TokenServer

ALIAS = "solo"
LOGIN_LASTS_MS = 2_000
_BEARER = "org.apache.kafka.common.security.oauthbearer"
CLIENT_SECRET = "MIRROR_LEDGER_CLIENT_SECRET"


@dataclass(frozen=True)
class Doors:
    """A broker, and who may come in."""

    over_tls: str
    by_token: Forwarder
    open: str
    authority: Authority
    tokens: TokenServer
    tokens_authority: Path
    folder: Path

    def pair(self, address: str, login: Mapping[str, str | SecretReference]) -> Pair:
        """Two topics; only the copy comes in by the address."""
        sides = ("source", "target")
        return Pair(dict.fromkeys(sides, self.open), dict.fromkeys(sides, address), login=login)

    def token_login(self) -> dict[str, str | SecretReference]:
        return {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": SecretReference(env=CLIENT_SECRET),
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "tenant=east",
            "https.ca.location": str(self.tokens_authority),
        }


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder, secret = tmp_path_factory.mktemp("doors"), uuid.uuid4().hex
    authority, of_tokens = Authority("in-house"), Authority("provider")
    trusted = authority.write(folder / "authority.pem")
    (folder / "broker.pem").write_bytes(authority.signed("broker").as_pem())
    (folder / "tokens.pem").write_bytes(of_tokens.signed("tokens").as_pem())
    tokens = TokenServer(secret)
    keys = tokens.write_keys(folder / "keys.json").as_uri()
    with ExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        for name in (CLIENT_SECRET, SECRET, STORE_PASSWORD, KEY_PASSWORD):
            environment.setenv(name, secret if name in {CLIENT_SECRET, SECRET} else f"{name}-of-test")
        environment.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}")
        stack.enter_context(tokens.serving(folder / "tokens.pem"))
        sandbox = Sandbox(folder / "sandbox")
        stack.callback(sandbox.down)
        cluster = sandbox.up(
            [ALIAS],
            1,
            security={ALIAS: _certificates(folder, trusted)},
            overrides={ALIAS: _tokens_and_passwords(keys, secret)},
            far=[ALIAS],
        )[ALIAS]
        (broker,) = cluster.brokers
        records = state.load(sandbox.root)
        assert broker.far is not None
        assert records is not None
        yield Doors(
            over_tls=cluster.bootstrap_servers,
            by_token=stack.enter_context(forwarding(broker.far)),
            open=f"127.0.0.1:{records[ALIAS].nodes[0].ports.internal}",
            authority=authority,
            tokens=tokens,
            tokens_authority=of_tokens.write(folder / "of-tokens.pem"),
            folder=folder,
        )


def _certificates(folder: Path, trusted: Path) -> ListenerSecurity:
    here = "listener.name.client.ssl."
    return ListenerSecurity(
        "SSL",
        {
            f"{here}client.auth": "required",
            f"{here}keystore.type": "PEM",
            f"{here}keystore.location": str(folder / "broker.pem"),
            f"{here}truststore.type": "PEM",
            f"{here}truststore.location": str(trusted),
        },
    )


def _tokens_and_passwords(keys: str, password: str) -> dict[str, str]:
    here = "listener.name.far."
    return {
        "listener.security.protocol.map": "CLIENT:SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:SASL_PLAINTEXT",
        f"{here}sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN",
        f"{here}connections.max.reauth.ms": str(LOGIN_LASTS_MS),
        f"{here}plain.sasl.jaas.config": f'{PLAIN} required user_mirror="{password}";',
        f"{here}oauthbearer.sasl.jaas.config": f"{_BEARER}.OAuthBearerLoginModule required;",
        f"{here}oauthbearer.sasl.server.callback.handler.class": f"{_BEARER}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def stores(doors: Doors, kind: str, **named: Any) -> Login:
    own = named.get("own") or doors.authority.signed("mirror")
    trusted = named.get("trusted") or doors.authority
    folder = doors.folder / f"{kind}-{uuid.uuid4().hex[:8]}"
    password, of_key = os.environ[STORE_PASSWORD], os.environ[KEY_PASSWORD]
    made = {
        "pem": lambda: as_pem_files(folder, own, trusted, of_key),
        "pkcs12": lambda: as_pkcs12(folder, own, trusted, password),
        "jks": lambda: as_jks(folder, own, trusted, password, of_key),
    }
    return {"security.protocol": "ssl", **made[kind]()}
