"""Who may read: a token where one is configured, by names that are meant, and headers that keep a page to itself."""

import base64
import binascii
import hmac
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ledger.config.values import Listen

OF_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")
_ANY = frozenset({"0.0.0.0", "::"})
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def known_hosts(listen: Listen, others: Iterable[str], *, has_token: bool) -> list[str]:
    """Names in a request by which a page may be asked for, `*`: any.

    Without a token a page that somebody reads elsewhere could otherwise give its own name this address, and read along.
    """
    if has_token and listen.host in _ANY and not tuple(others):
        return ["*"]
    own = f"[{listen.host}]" if ":" in listen.host else listen.host
    return [*dict.fromkeys((*OF_THIS_MACHINE, own, *others))]


class Guarded:
    """Answers who shows the token (None: anybody), with headers that forbid a page all that is not its own.

    The token is shown as a bearer token, or as the password of basic authentication.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        if self._token is not None and not shows(Headers(scope=scope).get("authorization", ""), self._token):
            refused = PlainTextResponse(
                "a token is needed\n",
                status_code=401,
                headers={"WWW-Authenticate": 'Basic realm="mirror-ledger", charset="UTF-8"'},
            )
            await refused(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)


def shows(authorization: str, token: str) -> bool:
    """Whether a header has the token; how long that takes tells nothing about it."""
    scheme, _, given = authorization.partition(" ")
    match scheme.lower():
        case "bearer":
            shown = given.strip()
        case "basic":
            shown = _password(given.strip())
        case _:
            return False
    return hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), token.encode())


def _password(given: str) -> str:
    try:
        return base64.b64decode(given, validate=True).decode("utf-8", "replace").partition(":")[2]
    except (binascii.Error, ValueError):
        return ""
