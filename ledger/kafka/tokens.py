"""Bearer tokens for OAUTHBEARER: from an OIDC token endpoint, from a file that somebody else renews, from AWS.

A process has one cache for each endpoint and client. A token is asked for again when four fifths of its time are over,
as Java's clients do; while the old one is valid, an endpoint that is away keeps nobody out.
"""

import base64
import json
import os
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from ledger.errors import ClusterUnavailableError, Trouble, UsageError
from ledger.words import instant

_PROPERTY = "sasl.oauthbearer."
_URL = f"{_PROPERTY}token.endpoint.url"
_AUTHORITIES = "https.ca.location"
_RENEW_AT = 0.8
_TIMEOUT_S = 5.0
_WITHOUT_END_S = 300.0  # a token that says nothing of its end is asked for again so often
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token; times are seconds since 1970. `ends_at` None: nobody says."""

    text: str = field(repr=False)
    issued_at: float
    ends_at: float | None

    @property
    def renew_at(self) -> float:
        lasts_s = _WITHOUT_END_S if self.ends_at is None else (self.ends_at - self.issued_at) * _RENEW_AT
        return self.issued_at + lasts_s


class CachedTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Gives the token that `ask` brought until it is to be renewed; safe to use from several threads."""

    def __init__(self, ask: Callable[[], Token]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._kept: Token | None = None

    def token(self) -> str:
        with self._lock:
            kept, now = self._kept, time.time()
            if kept is not None and now < kept.renew_at:
                return kept.text
            try:
                self._kept = self._ask()
            except ClusterUnavailableError:
                if kept is None or kept.ends_at is None or now >= kept.ends_at:
                    raise
                return kept.text
            return self._kept.text

    def forget(self) -> None:
        """A broker refused it: the next one is asked for."""
        with self._lock:
            self._kept = None


class FileTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Reads a file at each login; whoever writes it renews the token in time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def token(self) -> str:
        try:
            text = self._path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a token"
            raise UsageError(
                f"no token is read from {self._path}: {reason}", trouble=Trouble.SECRET
            ) from None
        if not text:
            raise UsageError(f"no token is read from {self._path}, which is empty", trouble=Trouble.SECRET)
        ends_at = _end_of(text)
        if ends_at is not None and ends_at <= time.time():
            raise UsageError(
                f"the token in {self._path} expired at {instant(int(ends_at * 1000))}; nothing was sent",
                trouble=Trouble.TOKEN_EXPIRED,
            )
        return text

    def forget(self) -> None:
        """Nothing is kept."""


class _Extended(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens with the extensions of one login."""

    def __init__(self, tokens: CachedTokens | FileTokens, extensions: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._extensions = dict(extensions)

    def token(self) -> str:
        return self._tokens.token()

    def extensions(self) -> dict[str, str]:
        return self._extensions

    def forget(self) -> None:
        self._tokens.forget()


TokenProvider = CachedTokens | FileTokens | _Extended


def token_provider(peer: str, properties: Mapping[str, str]) -> TokenProvider:
    """Where the tokens of these client properties come from."""
    method = properties.get(f"{_PROPERTY}method", "oidc")
    if method != "oidc":
        raise _refused(peer, f'{_PROPERTY}method is "oidc", got {method!r}')
    url = properties.get(_URL)
    if url is None:
        raise _refused(
            peer, f"{_URL} is needed: an address of an OIDC token endpoint, or file:///PATH of a token"
        )
    extensions = _extensions(peer, properties.get(f"{_PROPERTY}extensions", ""))
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        return _Extended(FileTokens(Path(urllib.request.url2pathname(parts.path))), extensions)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _refused(peer, f"{_URL} begins with https:// or http:// or file:///, got {url!r}")
    named = [properties.get(f"{_PROPERTY}client.{part}") for part in ("id", "secret")]
    if None in named:
        raise _refused(peer, f"{_PROPERTY}client.id and {_PROPERTY}client.secret are needed")
    endpoint = Endpoint(
        url, str(named[0]), str(named[1]), properties.get(f"{_PROPERTY}scope"), properties.get(_AUTHORITIES)
    )
    return _Extended(_endpoint_tokens(endpoint), extensions)


def _extensions(peer: str, text: str) -> dict[str, str]:
    """`NAME=VALUE,NAME=VALUE`, as RFC 7628 lets them be."""
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z]+", name) or name == "auth" or not value.isprintable():
            raise _refused(peer, f"{_PROPERTY}extensions is NAME=VALUE,NAME=VALUE, got {part!r}")
        found[name] = value
    return found


def _refused(peer: str, why: str) -> UsageError:
    return UsageError(f"{peer}: {why}; no connection was made", trouble=Trouble.LOGIN)


# Token endpoint -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OIDC token endpoint, and as whom the mirror asks there."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None
    authorities: str | None


@cache
def _endpoint_tokens(endpoint: Endpoint) -> CachedTokens:
    return CachedTokens(lambda: _asked(endpoint))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Another address does not get the client's secret."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _asked(endpoint: Endpoint) -> Token:
    """By the grant of client credentials (RFC 6749, section 4.4)."""
    form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    credentials = f"{endpoint.client_id}:{endpoint.client_secret}".encode()
    request = urllib.request.Request(
        endpoint.url,
        data=urllib.parse.urlencode(form).encode("ascii"),
        headers={
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(credentials).decode("ascii"),
        },
    )
    named = {} if endpoint.authorities is None else {_AUTHORITIES: endpoint.authorities}
    from ledger.kafka.tls import trusting_context

    context = trusting_context(f"token endpoint {endpoint.url}", named, _AUTHORITIES)
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
    asked_at = time.time()
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            return _token(endpoint, answer.read(_MOST_BYTES), asked_at)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(endpoint, error.code, error.read(_MOST_BYTES)) from None
    except (OSError, HTTPException) as error:  # URLError is an OSError
        reason = getattr(error, "reason", None) or error
        raise ClusterUnavailableError(
            f"token endpoint {endpoint.url} cannot be asked: {reason}", trouble=Trouble.TOKEN_ENDPOINT
        ) from error


def _refusal(endpoint: Endpoint, status: int, body: bytes) -> UsageError | ClusterUnavailableError:
    said = _object(body)
    words = (
        ": ".join(str(said[key]) for key in ("error", "error_description") if said.get(key)) or "no reason"
    )
    message = f"token endpoint {endpoint.url} gives client {endpoint.client_id} no token: {status}, {words}"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
        return ClusterUnavailableError(message, trouble=Trouble.TOKEN_ENDPOINT)
    is_refused = status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
    return UsageError(message, trouble=Trouble.TOKEN_CLIENT if is_refused else Trouble.TOKEN_ENDPOINT)


def _token(endpoint: Endpoint, body: bytes, asked_at: float) -> Token:
    said = _object(body)
    text, lasts_s = said.get("access_token"), said.get("expires_in")
    if not isinstance(text, str) or not text:
        raise UsageError(
            f"{endpoint.url} answers without an access_token: it is no token endpoint; no connection was made",
            trouble=Trouble.TOKEN_ENDPOINT,
        )
    ends = [_end_of(text), asked_at + lasts_s if isinstance(lasts_s, int | float) else None]
    return Token(text, asked_at, min((end for end in ends if end is not None), default=None))


def _object(text: bytes) -> dict[str, Any]:
    """A JSON object; empty for anything else."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _end_of(token: str) -> float | None:
    """Until when a JWT says that it is valid, in seconds since 1970; None: it says nothing, or is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = _object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    end = claims.get("exp")
    return float(end) if isinstance(end, int | float) and abs(end) < 1 << 63 else None


# AWS ----------------------------------------------------------------------------------------------


_AWS_LASTS_S = 900.0
_BROKER_OF_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


def iam_tokens(peer: str, hosts: Sequence[str], environ: Mapping[str, str] = os.environ) -> CachedTokens:
    """Tokens that AWS's own library signs with the credentials that it finds here (variables, profile, role)."""
    named = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    of_hosts = [match.group(1) for host in hosts if (match := _BROKER_OF_REGION.search(host))]
    region = named or next(iter(of_hosts), None)
    if region is None:
        raise UsageError(
            f"{peer}: the names of the brokers do not say which region of AWS they are in; no connection was made",
            trouble=Trouble.AWS,
        )
    return _region_tokens(region)


@cache
def _region_tokens(region: str) -> CachedTokens:
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError as error:
        raise missing_extra("AWS_MSK_IAM", "iam", error) from error

    def ask() -> Token:
        asked_at = time.time()
        try:
            if Session().get_credentials() is None:
                raise ValueError("none are found")
            text, _ = MSKAuthTokenProvider.generate_auth_token(region)
        except (BotoCoreError, ValueError) as error:
            raise UsageError(
                f"no AWS credentials to sign a token for {region} with: {error}; no connection was made",
                trouble=Trouble.AWS,
            ) from error
        return Token(
            text, asked_at, asked_at + _AWS_LASTS_S
        )  # when it ends is not said in this machine's time zone

    return CachedTokens(ask)


def missing_extra(mechanism: str, extra: str, error: ImportError) -> UsageError:
    """What a login needs and is not installed."""
    return UsageError(
        f"SASL mechanism {mechanism} needs the extra [{extra}]: {error}; no connection was made",
        trouble=Trouble.EXTRA,
    )
