"""An OIDC provider on loopback, of Authlib's own server: a token endpoint for client credentials, and its keys."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientCredentialsGrant, ClientMixin
from flask import Flask, Response
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import make_server

CLIENT = "mirror"
AUDIENCE = "kafka"


class _Client(ClientMixin):  # type: ignore[misc]
    """The one client that there is."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    # What Authlib asks of a client, by its names.

    def get_client_id(self) -> str:
        return CLIENT

    def get_allowed_scope(self, scope: str) -> str:
        return scope if scope == "kafka" else ""

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self._secret

    def check_endpoint_auth_method(self, method: str, _: str) -> bool:
        return method == "client_secret_basic"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "client_credentials"


def _nowhere(*_: object) -> None:
    """Tokens speak for themselves."""


class TokenServer:
    """`issued`: how many tokens it gave; `lasts_s`, `audience`: of those that it gives from now on."""

    def __init__(self, secret: str) -> None:
        self.issued = 0
        self.lasts_s = 3600
        self.audience = AUDIENCE
        self.url = ""
        self._key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self._app = Flask(__name__)
        server = AuthorizationServer(
            self._app,
            query_client=lambda name: _Client(secret) if name == CLIENT else None,
            save_token=_nowhere,
        )
        server.register_grant(ClientCredentialsGrant)
        server.register_token_generator("default", self._bearer)

        @self._app.post("/token")
        def token() -> Response:
            answer: Response = server.create_token_response()
            return answer

    def write_keys(self, file: Path) -> Path:
        """What brokers verify tokens by."""
        file.write_text(json.dumps(KeySet([self._key]).as_dict(private=False)))
        return file

    def token(self, *, lasts_s: float | None = None) -> str:
        """As the endpoint would give it."""
        now = int(time.time())
        ends = int(now + (self.lasts_s if lasts_s is None else lasts_s))
        claims = {"iss": "here", "sub": CLIENT, "aud": self.audience, "scope": "kafka"}
        times = {"iat": now - 60, "exp": ends}
        return str(jwt.encode({"alg": "RS256", "kid": "one"}, {**claims, **times}, self._key))

    def _bearer(self, **_: Any) -> dict[str, Any]:
        self.issued += 1
        return {"token_type": "Bearer", "access_token": self.token(), "expires_in": int(self.lasts_s)}

    @contextmanager
    def serving(self, certificate: Path | None = None) -> Iterator["TokenServer"]:
        """Over TLS with a key and certificate in one file, or without."""
        context = None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
        server = make_server("127.0.0.1", 0, self._app, threaded=True, ssl_context=context)
        self.url = f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join(10)
            server.server_close()
