"""How a cluster is reached: properties of Java's clients as those of the mirror, and secrets as references.

No secret is carried over. What the mirror cannot log in with is left out and said, with what to do instead.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ledger.config.values import CLIENT_RACK, SecretReference
from ledger.errors import InvalidValueError
from ledger.mirror_maker.choices import Choice, some
from ledger.mirror_maker.configuration import MakerCluster
from ledger.mirror_maker.keys import Verdict
from ledger.mirror_maker.patterns import parts_of
from ledger.mirror_maker.reading import Entry
from ledger.words import shell_word

_ADDRESS = re.compile(
    r"(?:(?P<scheme>[0-9a-zA-Z%._-]*)://)?(?P<host>\[[0-9a-fA-F:.]+\]|[0-9a-zA-Z%._-]+):(?P<port>\d{1,5})"
)
_BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_OAUTH, _KERBEROS, _IAM = "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"
_TOKENS_AT = "sasl.oauthbearer.token.endpoint.url"
_WHO = {
    **dict.fromkeys(_BY_PASSWORD, "sasl.username"),
    _OAUTH: _TOKENS_AT,
    _KERBEROS: "sasl.kerberos.keytab",
    _IAM: "sasl.jaas.config",
}
"""By mechanism that the mirror has, the key that has to be written where the file does not say who logs in."""
_NEED_JAAS = frozenset({*_BY_PASSWORD, _KERBEROS})
_NEEDS = {
    _KERBEROS: "needs pip install 'mirror-ledger[kerberos]'",
    _IAM: "needs pip install 'mirror-ledger[iam]'",
}
_HANDLERS = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class")
_IAM_TOKENS = frozenset({"software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"})
_KNOWN_HANDLERS = _IAM_TOKENS | {
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler",
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}
_OF_TOKENS = {
    _TOKENS_AT: (_TOKENS_AT, "oauth.token.endpoint.uri"),
    "sasl.oauthbearer.client.id": (
        "sasl.oauthbearer.client.credentials.client.id",
        *("clientId", "oauth.client.id"),
    ),
    "sasl.oauthbearer.client.secret": (
        "sasl.oauthbearer.client.credentials.client.secret",
        *("clientSecret", "oauth.client.secret"),
    ),
    "sasl.oauthbearer.scope": ("sasl.oauthbearer.scope", "scope", "oauth.scope"),
}
"""Properties, and options of a JAAS text, by what they are called here."""
_PLACEHOLDER = re.compile(r"\$\{(?:(?P<provider>\w+):(?:(?P<path>[^:}]*):)?)?(?P<key>[^:}]+)\}")
_OF_SHELL = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)\}|(?P<bare>[A-Za-z_]\w*))")

NOT_LOOKED_UP = "has a placeholder, and what that stands for is not looked up: write the value"
"""Whoever has written the file may name any variable or file of whoever imports it."""


def has_placeholder(value: str) -> bool:
    """Whether something else stands for a part of it."""
    return bool(_PLACEHOLDER.search(value) or _OF_SHELL.search(value))


def cluster_choices(cluster: MakerCluster, providers: Mapping[str, str]) -> list[Choice]:
    """The keys of the table of a cluster, in order; `providers`: the classes of `config.providers` by their names."""
    return list(_Login(cluster, providers).choices())


class _Login:
    def __init__(self, cluster: MakerCluster, providers: Mapping[str, str]) -> None:
        self._properties = cluster.properties
        self._providers = providers
        self._variable = re.sub(r"[^A-Za-z0-9]", "_", cluster.name).upper()

    def choices(self) -> Iterator[Choice]:
        yield from self._addresses()
        rack = self._properties.get(CLIENT_RACK)
        if rack is not None:
            yield self._plain(CLIENT_RACK, rack.value, rack)
        protocol = self._text("security.protocol", "PLAINTEXT").strip().upper()
        entry = self._properties.get("security.protocol")
        if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            yield self._not_yet("security.protocol", "is no protocol of Kafka", entry)
            return
        if entry is not None:
            yield Choice("security.protocol", protocol, "", some(entry))
        uses_sasl, uses_tls = protocol.startswith("SASL_"), protocol.endswith("SSL")
        if uses_sasl:
            yield from self._sasl()
        if uses_tls:
            yield from self._trust()
            yield from self._key()
        for name, one in self._properties.items():
            is_idle = (name.startswith("sasl.") and not uses_sasl) or (
                name.startswith("ssl.") and not uses_tls
            )
            if is_idle:
                yield Choice(
                    name,
                    None,
                    f"not used: security.protocol is {protocol}",
                    (one,),
                    Verdict.IGNORED,
                    is_shown=False,
                )

    def _text(self, name: str, default: str = "") -> str:
        entry = self._properties.get(name)
        return default if entry is None else entry.value or default

    def _not_yet(self, name: str, remark: str, *entries: Entry | None) -> Choice:
        return Choice(name, None, remark, tuple(one for one in entries if one is not None), Verdict.NOT_YET)

    # -- addresses -------------------------------------------------------------------------------

    def _addresses(self) -> Iterator[Choice]:
        entry = self._properties.get("bootstrap.servers")
        if entry is None:
            yield Choice(
                "bootstrap_servers", None, "the file names no address: write it", (), Verdict.NOT_YET
            )
            return
        if has_placeholder(entry.value):
            yield self._not_yet("bootstrap_servers", NOT_LOOKED_UP, entry)
            return
        found, remarks = [], []
        for part in parts_of(entry.value):
            matched = _ADDRESS.fullmatch(part)
            if matched is None:
                yield self._not_yet(
                    "bootstrap_servers", "has an address that is no host:port: write it", entry
                )
                return
            if matched["scheme"] is not None:
                remarks.append("the scheme in front of an address has no effect in Kafka's clients")
            found.append(f"{matched['host']}:{matched['port']}")
        if not found:
            yield self._not_yet("bootstrap_servers", "is empty: write it", entry)
            return
        yield Choice("bootstrap_servers", ",".join(found), "; ".join(dict.fromkeys(remarks)), (entry,))

    # -- SASL ------------------------------------------------------------------------------------

    def _sasl(self) -> Iterator[Choice]:
        mechanism, handlers = self._properties.get("sasl.mechanism"), self._handlers()
        name = self._text("sasl.mechanism", "GSSAPI").strip()
        if name == _OAUTH and any(one.value.strip() in _IAM_TOKENS for one in handlers):
            name = _IAM
        problem = self._unusable(name, handlers)
        if problem is not None:
            yield self._not_yet("sasl.mechanism", problem, mechanism)
            yield from (
                Choice(
                    one.key, None, f"belongs to a login by {name}", (one,), Verdict.NOT_YET, is_shown=False
                )
                for key, one in self._properties.items()
                if key.startswith("sasl.") and one != mechanism
            )
            return
        yield Choice("sasl.mechanism", name, _NEEDS.get(name, ""), some(mechanism, *handlers))
        try:
            jaas = self._properties.get("sasl.jaas.config")
            options = {} if jaas is None else jaas_options(jaas.value)
        except InvalidValueError as error:
            yield self._not_yet(_WHO[name], str(error), jaas)
            return
        if jaas is None and name in _NEED_JAAS:
            remark = "the file has no sasl.jaas.config: Java takes it from a file of its own"
            yield self._not_yet(_WHO[name], remark)
            return
        by_name = {_OAUTH: self._tokens, _KERBEROS: self._tickets, _IAM: self._roles}
        yield from by_name.get(name, self._password)(options, jaas)

    def _handlers(self) -> list[Entry]:
        return [one for name in _HANDLERS if (one := self._properties.get(name)) is not None]

    def _unusable(self, name: str, handlers: Sequence[Entry]) -> str | None:
        """Why the mirror cannot log in so; None: it can."""
        if name not in _WHO:
            return f"the mirror logs in by {', '.join(_WHO)}: give it a login of one of these"
        strange = [one for one in handlers if one.value.strip() not in _KNOWN_HANDLERS]
        if strange and name not in _BY_PASSWORD:
            return (
                f"{strange[0].where} names a class of its own for the login, which the mirror cannot load: give it a "
                f"login by {', '.join(_WHO)}"
            )
        return None

    def _password(self, options: Mapping[str, str], jaas: Entry | None) -> Iterator[Choice]:
        user, password = options.get("username"), options.get("password")
        if user is None or password is None or jaas is None:
            yield self._not_yet("sasl.username", "sasl.jaas.config has no username and password", jaas)
            return
        yield self._plain("sasl.username", user, jaas)
        yield self._secret("sasl.password", password, jaas)

    def _tokens(self, options: Mapping[str, str], jaas: Entry | None) -> Iterator[Choice]:
        """By properties of Kafka 4, by options of the JAAS text, or by those of Strimzi's handler there."""
        found: dict[str, tuple[str, Entry]] = {}
        for key, names in _OF_TOKENS.items():
            for name in names:
                entry = self._properties.get(name)
                if entry is not None:
                    found.setdefault(key, (entry.value, entry))
                elif name in options and jaas is not None:
                    found.setdefault(key, (options[name], jaas))
        at, who = found.get(_TOKENS_AT), found.get("sasl.oauthbearer.client.id")
        if at is None or (who is None and not at[0].startswith("file:")):
            remark = "the file does not say where tokens come from: an endpoint with a client, or a file"
            entries = [one for key, one in self._properties.items() if key.startswith("sasl.oauthbearer.")]
            yield self._not_yet(_TOKENS_AT, remark, jaas, *entries)
            return
        yield Choice("sasl.oauthbearer.method", "oidc", "", ())
        for key, (value, entry) in found.items():
            is_hidden = key == "sasl.oauthbearer.client.secret"
            yield self._secret(key, value, entry) if is_hidden else self._plain(key, value, entry)
        if jaas is not None and all(entry != jaas for _, entry in found.values()):
            remark = "its options have no meaning here: the properties beside it say what is needed"
            yield Choice("sasl.jaas.config", None, remark, (jaas,), Verdict.IGNORED, is_shown=False)

    def _tickets(self, options: Mapping[str, str], jaas: Entry | None) -> Iterator[Choice]:
        assert jaas is not None, "without it nothing is known of the login"
        service = self._properties.get("sasl.kerberos.service.name")
        if service is not None:
            yield self._plain("sasl.kerberos.service.name", service.value, service)
        elif "serviceName" in options:
            yield self._plain("sasl.kerberos.service.name", options["serviceName"], jaas)
        if "principal" in options:
            yield self._plain("sasl.kerberos.principal", options["principal"], jaas)
        if "keyTab" in options:
            yield self._plain("sasl.kerberos.keytab", options["keyTab"], jaas)
        else:
            remark = "without a keytab the tickets in the cache of the mirror's user are used"
            yield Choice("sasl.kerberos.keytab", None, remark, (jaas,), Verdict.DIFFERS)

    def _roles(self, options: Mapping[str, str], jaas: Entry | None) -> Iterator[Choice]:
        if jaas is None:
            return
        remark = "credentials are those that AWS's library finds: variables, a profile, a role of the machine"
        if "awsProfileName" in options:
            remark += f"; set AWS_PROFILE={shell_word(options['awsProfileName'])}"
        if "awsRoleArn" in options:
            remark += "; for the role that it names, make a profile with role_arn and set AWS_PROFILE to that"
        is_role = "awsRoleArn" in options
        verdict = Verdict.NOT_YET if is_role else Verdict.DIFFERS
        yield Choice("sasl.jaas.config", None, remark, (jaas,), verdict, is_shown=is_role)

    def _plain(self, key: str, value: str, entry: Entry) -> Choice:
        """A value that is no secret."""
        if has_placeholder(value):
            return self._not_yet(key, NOT_LOOKED_UP, entry)
        return Choice(key, value, "", (entry,))

    def _secret(self, key: str, value: str, entry: Entry) -> Choice:
        """A reference in place of a secret."""
        found = _PLACEHOLDER.fullmatch(value) or _OF_SHELL.fullmatch(value)
        suffix = re.sub(r"[^A-Za-z0-9]", "_", key).upper()
        invented = SecretReference(env=f"{self._variable}_{suffix}")
        if found is None:
            remark = f"the secret of {entry.where} is not carried over: set this variable to it, or write {{ file = }}"
            if " #" in value:
                remark += "; it has a '#' behind a blank, which is part of it in Java"
            return Choice(key, invented, remark, (entry,))
        groups = found.groupdict()
        provider = groups.get("provider")
        kind = self._providers.get(provider or "", "")
        name = groups.get("key") or groups.get("braced") or groups.get("bare") or ""
        is_variable = re.fullmatch(r"[A-Za-z_]\w*", name) if provider is None else not kind
        meant = None
        if kind.endswith("DirectoryConfigProvider"):
            meant = SecretReference(file=str(Path(groups.get("path") or "") / name))
        elif kind.endswith("EnvVarConfigProvider") or (
            is_variable and provider in (None, "env", "strimzienv")
        ):
            meant = SecretReference(env=name)
        if meant is not None:
            return Choice(key, meant, f"as the placeholder of {entry.where} says", (entry,))
        return Choice(
            key,
            invented,
            f"{entry.where} has it from {provider}: set this variable, or write {{ file = }} with a file that holds "
            "nothing else",
            (entry,),
        )

    # -- TLS -------------------------------------------------------------------------------------

    def _trust(self) -> Iterator[Choice]:
        inline = self._properties.get("ssl.truststore.certificates")
        if inline is not None:
            yield self._not_yet(
                "ssl.ca.location", "put these certificates into a file in PEM format, and name it", inline
            )
        else:
            yield from self._store("ssl.truststore")
        checked = self._properties.get("ssl.endpoint.identification.algorithm")
        if checked is not None:
            value = checked.value.strip().lower()
            yield Choice(
                "ssl.endpoint.identification.algorithm",
                value or "none",
                "" if value else "empty in Java: the name in the certificate is not checked",
                (checked,),
            )

    def _key(self) -> Iterator[Choice]:
        names = ("ssl.keystore.certificate.chain", "ssl.keystore.key")
        inline = [self._properties.get(name) for name in names]
        key = self._properties.get("ssl.key.password")
        if any(inline):
            remark = "put certificate and key into files in PEM format, and name them as ssl.certificate.location and "
            kind = self._properties.get("ssl.keystore.type")
            yield self._not_yet("ssl.certificate.location", f"{remark}ssl.key.location", *inline, kind)
        else:
            yield from self._store("ssl.keystore")
        if key is not None:
            yield self._secret("ssl.key.password", key.value, key)

    def _store(self, store: str) -> Iterator[Choice]:
        """A file in PEM, PKCS#12 or JKS format, under Java's names."""
        for name in (f"{store}.location", f"{store}.type"):
            if (entry := self._properties.get(name)) is not None:
                yield self._plain(name, entry.value.strip(), entry)
        if (password := self._properties.get(f"{store}.password")) is not None:
            yield self._secret(f"{store}.password", password.value, password)


# JAAS ---------------------------------------------------------------------------------------------


_OPTION = re.compile(
    r"""\s*(?P<name>[\w.-]+)\s*=\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s;"']+))"""
)
_HEAD = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b", re.IGNORECASE)


def jaas_options(text: str) -> dict[str, str]:
    """The options of a `sasl.jaas.config`; raises `InvalidValueError`, which quotes nothing of it."""
    head = _HEAD.match(text)
    if head is None:
        raise InvalidValueError(
            "sasl.jaas.config does not begin with a class and `required`: MirrorMaker refuses it"
        )
    options: dict[str, str] = {}
    place = head.end()
    while (found := _OPTION.match(text, place)) is not None:
        given = found["double"] if found["double"] is not None else found["single"]
        options[found["name"]] = re.sub(r"\\(.)", r"\1", given) if given is not None else found["bare"]
        place = found.end()
    if text[place:].strip() != ";":
        raise InvalidValueError(
            "sasl.jaas.config does not end with one semicolon behind its options: MirrorMaker refuses it; over several "
            "lines each but the last needs a backslash at its end"
        )
    return options
