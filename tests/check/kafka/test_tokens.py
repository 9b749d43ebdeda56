"""Tokens are asked for in time, once for a process, and by nobody else; a provider that is away is waited for."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.errors import ClusterUnavailableError, MirrorLedgerError, Trouble, UsageError
from ledger.kafka import tokens
from ledger.kafka.tokens import CachedTokens, Token, iam_tokens, token_provider
from tests.support.token_servers import CLIENT, TokenServer

SECRET = uuid.uuid4().hex
URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.fixture
def server() -> Iterator[TokenServer]:
    tokens._endpoint_tokens.cache_clear()
    with TokenServer(SECRET).serving() as serving:
        yield serving


def properties_of(server: TokenServer, **other: str) -> dict[str, str]:
    asked = {
        URL: server.url,
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
    }
    return asked | {f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in other.items()}


def refusal(properties: dict[str, str]) -> MirrorLedgerError:
    with pytest.raises(MirrorLedgerError) as refused:
        token_provider("cluster east", properties).token()
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)
    return refused.value


def test_one_token_serves_everybody_until_it_is_to_be_renewed(server: TokenServer) -> None:
    properties = properties_of(server)
    first = token_provider("cluster east", properties).token()
    assert token_provider("cluster west", properties).token() == first
    assert server.issued == 1
    token_provider("cluster east", properties).forget()
    assert token_provider("cluster west", properties).token()
    assert server.issued == 2


def test_extensions_are_of_a_login_and_tokens_of_a_client(server: TokenServer) -> None:
    with_tenant = token_provider("east", properties_of(server, extensions="tenant=a, pool=b"))
    without = token_provider("east", properties_of(server))
    assert (with_tenant.extensions(), without.extensions()) == ({"tenant": "a", "pool": "b"}, {})
    assert with_tenant.token() == without.token()
    for wrong in ("tenant", "auth=x", "a-b=c", "a=\x01"):
        assert refusal(properties_of(server, extensions=wrong)).trouble is Trouble.LOGIN


def test_what_a_provider_says_is_one_line(server: TokenServer) -> None:
    wrong = refusal(properties_of(server, client_secret="wrong"))
    assert (wrong.trouble, "401, invalid_client" in str(wrong)) == (Trouble.TOKEN_CLIENT, True)
    wrong = refusal(properties_of(server) | {URL: server.url + "s"})
    assert (wrong.trouble, ": 404" in str(wrong)) == (Trouble.TOKEN_ENDPOINT, True)
    away = refusal(properties_of(server) | {URL: "http://127.0.0.1:1/token"})
    assert isinstance(away, ClusterUnavailableError)
    assert (away.trouble, "refused" in str(away)) == (Trouble.TOKEN_ENDPOINT, True)


def test_properties_that_lack_something() -> None:
    assert "token.endpoint.url is needed" in str(refusal({}))
    assert 'method is "oidc"' in str(refusal({"sasl.oauthbearer.method": "default"}))
    assert "client.id and sasl.oauthbearer.client.secret" in str(refusal({URL: "https://x/token"}))
    assert "begins with https://" in str(refusal({URL: "ftp://x/token"}))


class Provider:
    """Gives tokens that last so long, while it is there."""

    def __init__(self, lasts_s: float | None) -> None:
        self.lasts_s = lasts_s
        self.asked = 0
        self.is_away = False

    def __call__(self) -> Token:
        self.asked += 1
        if self.is_away:
            raise ClusterUnavailableError("away", trouble=Trouble.TOKEN_ENDPOINT)
        now = time.time()
        return Token(f"token-{self.asked}", now, None if self.lasts_s is None else now + self.lasts_s)


def test_a_token_is_renewed_before_it_ends_and_kept_while_the_provider_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider, now = Provider(100), time.time()
    kept = CachedTokens(provider)
    monkeypatch.setattr(time, "time", lambda: now)
    assert kept.token() == "token-1"
    monkeypatch.setattr(time, "time", lambda: now + 79)
    assert kept.token() == "token-1"
    provider.is_away = True
    monkeypatch.setattr(time, "time", lambda: now + 99)
    assert (kept.token(), provider.asked) == ("token-1", 2)
    monkeypatch.setattr(time, "time", lambda: now + 100)
    with pytest.raises(ClusterUnavailableError):
        kept.token()
    provider.is_away = False
    assert kept.token() == "token-4"
    monkeypatch.setattr(time, "time", lambda: now + 181)
    assert kept.token() == "token-5"


def test_a_file_is_read_at_each_login_and_an_expired_token_is_not_sent(
    server: TokenServer, tmp_path: Path
) -> None:
    file = tmp_path / "a token"
    provider = token_provider("cluster east", {URL: file.as_uri()})
    with pytest.raises(UsageError, match=r"no token is read from .*No such file"):
        provider.token()
    for _ in range(2):
        text = server.token() + "\n" * _
        file.write_text(text)
        assert provider.token() == text.strip()
    file.write_text(server.token(lasts_s=-1))
    with pytest.raises(UsageError, match="a token expired at 20") as expired:
        provider.token()
    assert expired.value.trouble is Trouble.TOKEN_EXPIRED
    file.write_text("opaque")
    assert provider.token() == "opaque"


def test_a_region_that_nobody_names_is_asked_for() -> None:
    with pytest.raises(UsageError, match="which region of AWS") as refused:
        iam_tokens("cluster east", ["broker.example.com"], environ={})
    assert refused.value.trouble is Trouble.AWS
