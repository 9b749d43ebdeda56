"""Who the mirror is to brokers that ask: SASL mechanisms of client properties.

kafka-python has the mechanisms; here they get what they need: secrets, tokens, and tickets of Kerberos by a keytab.
The same settings serve its connection manager and the sockets of the copy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.net.sasl import get_sasl_mechanism, register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from ledger.errors import ClusterUnavailableError, Trouble, UsageError
from ledger.kafka.tokens import iam_tokens, missing_extra, token_provider

_IAM, _OAUTH, _KERBEROS = "AWS_MSK_IAM", "OAUTHBEARER", "GSSAPI"
_BY_PASSWORD = {"sasl.username": "sasl_plain_username", "sasl.password": "sasl_plain_password"}


def security_protocol(properties: Mapping[str, str]) -> str:
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; as configured where it is none of these."""
    return properties.get("security.protocol", "plaintext").upper()


def login_settings(peer: str, properties: Mapping[str, str], hosts: Sequence[str]) -> dict[str, Any]:
    """How to log in with resolved client properties, as kafka-python takes it: empty where no login is configured.

    `hosts` are brokers. Raises `UsageError` for what is missing.
    """
    if not security_protocol(properties).startswith("SASL"):
        return {}
    name = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or _KERBEROS
    settings: dict[str, Any] = {"sasl_mechanism": name}
    if name == _IAM:
        settings |= {"sasl_mechanism": _OAUTH, "sasl_oauth_token_provider": iam_tokens(peer, hosts)}
    elif name == _OAUTH:
        settings["sasl_oauth_token_provider"] = token_provider(peer, properties)
    elif name == _KERBEROS:
        settings["sasl_kerberos_name"] = KerberosLogin(
            properties.get("sasl.kerberos.service.name", "kafka"),
            properties.get("sasl.kerberos.principal"),
            properties.get("sasl.kerberos.keytab"),
        )
    else:
        _known(name)
        if missing := [key for key in _BY_PASSWORD if key not in properties]:
            why = f"{peer}: SASL mechanism {name} needs {' and '.join(missing)}; no connection was made"
            raise UsageError(why, trouble=Trouble.LOGIN)
        settings |= {theirs: properties[ours] for ours, theirs in _BY_PASSWORD.items()}
    return settings


def mechanism_of(settings: Mapping[str, Any], *, host: str, protocol: str) -> Any:
    """A mechanism of kafka-python that begins a login at a broker."""
    return _known(settings["sasl_mechanism"])(host=host, security_protocol=protocol, **settings)


def _known(name: str) -> Any:
    try:
        return get_sasl_mechanism(name)
    except KeyError as error:
        raise UsageError(
            f"SASL mechanism {name!r} is not known; no connection was made", trouble=Trouble.MECHANISM
        ) from error


def refused_trouble(settings: Mapping[str, Any]) -> Trouble:
    """What a broker does not take, that refused a login; a token is not kept then."""
    provider = settings.get("sasl_oauth_token_provider")
    if provider is not None:
        provider.forget()
        return Trouble.TOKEN
    return Trouble.KERBEROS if settings["sasl_mechanism"] == _KERBEROS else Trouble.CREDENTIALS


# Kerberos -----------------------------------------------------------------------------------------


_NO_ANSWER_OF_KDC = (
    -1765328228 & 0xFFFFFFFF,
    -1765328230 & 0xFFFFFFFF,
)  # KRB5_KDC_UNREACH, KRB5_REALM_UNKNOWN


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """The service's name, and by which principal of which keytab; None: those of this machine's ticket cache."""

    service: str
    principal: str | None
    keytab: str | None


class KeytabGssapi(SaslMechanismGSSAPI):  # type: ignore[misc]
    """kafka-python's, with the tickets of a `KerberosLogin`; they are kept in memory and renewed by the keytab."""

    def __init__(self, **config: Any) -> None:
        try:
            import gssapi
        except (ImportError, OSError) as error:
            raise missing_extra(_KERBEROS, "kerberos", ImportError(error)) from error
        login: KerberosLogin = config["sasl_kerberos_name"]
        self._is_done = self._is_authenticated = False
        self.auth_id = f"{login.service}@{config['host']}"
        self._errors = gssapi.exceptions.GSSError
        try:
            service = gssapi.Name(self.auth_id, name_type=gssapi.NameType.hostbased_service)
            self.gssapi_name = service.canonicalize(gssapi.MechType.kerberos)
            self._client_ctx = gssapi.SecurityContext(
                name=self.gssapi_name, usage="initiate", creds=_credentials(gssapi, login)
            )
            self._next_token = self._client_ctx.step(None)
        except self._errors as error:
            raise self._failure(error) from error

    def receive(self, auth_bytes: bytes) -> None:
        try:
            super().receive(auth_bytes)
        except self._errors as error:
            raise self._failure(error) from error

    def _failure(self, error: Any) -> UsageError | ClusterUnavailableError:
        words = " ".join(str(error.gen_message()).split())
        message = f"no Kerberos ticket for {self.auth_id}: {words}"
        if error.min_code & 0xFFFFFFFF in _NO_ANSWER_OF_KDC:
            return ClusterUnavailableError(message, trouble=Trouble.KDC)
        return UsageError(f"{message}; nothing was sent", trouble=Trouble.KERBEROS)


def _credentials(gssapi: Any, login: KerberosLogin) -> Any:
    if login.keytab is None and login.principal is None:
        return None
    name = login.principal and gssapi.Name(login.principal, name_type=gssapi.NameType.kerberos_principal)
    # The library asks for a ticket by the keytab when it has none, or an old one.
    kept = f"MEMORY:mirror-ledger-{abs(hash(login))}"
    store = None if login.keytab is None else {"client_keytab": login.keytab, "ccache": kept}
    return gssapi.Credentials(name=name, usage="initiate", store=store)


register_sasl_mechanism(_KERBEROS, KeytabGssapi, overwrite=True)
