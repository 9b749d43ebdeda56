"""How a cluster is reached: properties of Java's clients as those of the mirror, and secrets as references.

No secret is carried over. What the mirror cannot log in with is left out and said, with what to do instead.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ledger.errors import InvalidValueError
from ledger.mirror_maker.choices import Choice, Reference
from ledger.mirror_maker.configuration import MakerCluster
from ledger.mirror_maker.keys import Verdict, is_secret
from ledger.mirror_maker.patterns import parts_of
from ledger.mirror_maker.properties import read_properties
from ledger.mirror_maker.reading import Entry

_ADDRESS = re.compile(
    r"(?:(?P<scheme>[0-9a-zA-Z%._-]*)://)?(?P<host>\[[0-9a-fA-F:.]+\]|[0-9a-zA-Z%._-]+):(?P<port>\d{1,5})"
)
_USABLE = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PLACEHOLDER = re.compile(r"\$\{(?:(?P<provider>\w+):(?:(?P<path>[^:}]*):)?)?(?P<key>[^:}]+)\}")
_OF_SHELL = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)\}|(?P<bare>[A-Za-z_]\w*))")
_TO_PEM = (
    "keytool -importkeystore -srckeystore STORE -destkeystore store.p12 -deststoretype PKCS12, "
    "then openssl pkcs12 -in store.p12"
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What placeholders are resolved by: the environment, and the classes of `config.providers` by their names."""

    environ: Mapping[str, str]
    providers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Resolved:
    """`text` None: it is not known here; `remark` says what was done, or is to be done."""

    text: str | None
    remark: str = ""


def cluster_choices(cluster: MakerCluster, around: Surroundings) -> list[Choice]:
    """The keys of the table of a cluster, in order."""
    return list(_Login(cluster, around).choices())


class _Login:
    def __init__(self, cluster: MakerCluster, around: Surroundings) -> None:
        self._properties = cluster.properties
        self._around = around
        self._variable = re.sub(r"[^A-Za-z0-9]", "_", cluster.name).upper()

    def choices(self) -> Iterator[Choice]:
        yield from self._addresses()
        protocol = self._text("security.protocol", "PLAINTEXT").strip().upper()
        entry = self._properties.get("security.protocol")
        if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            yield self._not_yet("security.protocol", "is no protocol of Kafka", entry)
            return
        if entry is not None:
            yield Choice("security.protocol", protocol, "", _all(entry))
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
        if entry is None:
            return default
        return self._resolved(entry.value).text or default

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
        resolved = self._resolved(entry.value)
        if resolved.text is None:
            yield self._not_yet("bootstrap_servers", resolved.remark, entry)
            return
        found, remarks = [], [resolved.remark] if resolved.remark else []
        for part in parts_of(resolved.text):
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
        mechanism = self._properties.get("sasl.mechanism")
        name = self._text("sasl.mechanism", "GSSAPI").strip()
        jaas = self._properties.get("sasl.jaas.config")
        if name not in _USABLE:
            wrong = "without sasl.mechanism Java logs in by GSSAPI (Kerberos): " if mechanism is None else ""
            remark = f"{wrong}the mirror logs in by {', '.join(_USABLE)}: give it a login of one of these"
            yield self._not_yet("sasl.mechanism", remark, mechanism)
            others = [
                entry
                for key, entry in self._properties.items()
                if key.startswith("sasl.") and entry != mechanism
            ]
            yield from (
                Choice(
                    entry.key,
                    None,
                    f"belongs to a login by {name}",
                    (entry,),
                    Verdict.NOT_YET,
                    is_shown=False,
                )
                for entry in others
            )
            return
        yield Choice("sasl.mechanism", name, "", _all(mechanism))
        if jaas is None:
            yield self._not_yet(
                "sasl.username", "the file has no sasl.jaas.config: Java takes it from a file of its own"
            )
            return
        try:
            options = jaas_options(jaas.value)
        except InvalidValueError as error:
            yield self._not_yet("sasl.username", str(error), jaas)
            return
        user, password = options.get("username"), options.get("password")
        if user is None or password is None:
            yield self._not_yet("sasl.username", "sasl.jaas.config has no username and password", jaas)
            return
        resolved = self._resolved(user)
        if resolved.text is None:
            yield self._not_yet("sasl.username", resolved.remark, jaas)
        else:
            yield Choice("sasl.username", resolved.text, resolved.remark, (jaas,))
        yield self._secret("sasl.password", password, jaas)

    def _secret(self, key: str, value: str, entry: Entry) -> Choice:
        """A reference in place of a secret."""
        found = _PLACEHOLDER.fullmatch(value) or _OF_SHELL.fullmatch(value)
        suffix = re.sub(r"[^A-Za-z0-9]", "_", key).upper()
        invented = Reference(env=f"{self._variable}_{suffix}")
        if found is None:
            remark = f"the secret of {entry.where} is not carried over: set this variable to it, or write {{ file = }}"
            if " #" in value:
                remark += "; it has a '#' behind a blank, which is part of it in Java"
            return Choice(key, invented, remark, (entry,))
        groups = found.groupdict()
        provider = groups.get("provider")
        kind = self._around.providers.get(provider or "", "")
        if provider is None:
            name = groups.get("key") or groups.get("braced") or groups.get("bare") or ""
            if re.fullmatch(r"[A-Za-z_]\w*", name):
                return Choice(key, Reference(env=name), f"as the placeholder of {entry.where} says", (entry,))
        elif kind.endswith("EnvVarConfigProvider") or (not kind and provider in ("env", "strimzienv")):
            return Choice(
                key, Reference(env=groups["key"]), f"as the placeholder of {entry.where} says", (entry,)
            )
        elif kind.endswith("DirectoryConfigProvider"):
            place = str(Path(groups.get("path") or "") / groups["key"])
            return Choice(key, Reference(file=place), f"as the placeholder of {entry.where} says", (entry,))
        return Choice(
            key,
            invented,
            f"{entry.where} has it from {provider}: set this variable, or write {{ file = }} with a file that holds "
            "nothing else",
            (entry,),
        )

    # -- TLS -------------------------------------------------------------------------------------

    def _trust(self) -> Iterator[Choice]:
        location, kind = (
            self._properties.get("ssl.truststore.location"),
            self._properties.get("ssl.truststore.type"),
        )
        inline = self._properties.get("ssl.truststore.certificates")
        password = self._properties.get("ssl.truststore.password")
        if inline is not None:
            yield self._not_yet(
                "ssl.ca.location", "put these certificates into a file in PEM format, and name it", inline
            )
        elif location is not None and self._is_pem(location, kind):
            yield Choice("ssl.ca.location", self._text("ssl.truststore.location"), "", _all(location, kind))
        elif location is not None:
            yield self._not_yet(
                "ssl.ca.location",
                f"a file in PEM format: {_TO_PEM} -nokeys -out ca.pem",
                *(location, kind, password),
            )
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
        location, kind = (
            self._properties.get("ssl.keystore.location"),
            self._properties.get("ssl.keystore.type"),
        )
        inline = [
            self._properties.get(name) for name in ("ssl.keystore.certificate.chain", "ssl.keystore.key")
        ]
        store, key = self._properties.get("ssl.keystore.password"), self._properties.get("ssl.key.password")
        if any(inline):
            remark = "put certificate and key into files in PEM format, and name them as ssl.certificate.location and "
            yield self._not_yet("ssl.certificate.location", f"{remark}ssl.key.location", *inline, kind)
        elif location is not None and self._is_pem(location, kind):
            path = self._text("ssl.keystore.location")
            yield Choice("ssl.certificate.location", path, "", _all(location, kind))
            yield Choice("ssl.key.location", path, "the same file: it holds both", _all(location))
        elif location is not None:
            yield self._not_yet(
                "ssl.certificate.location",
                f"a file in PEM format, and ssl.key.location: {_TO_PEM} -out client.pem",
                *(location, kind, store, key),
            )
            return
        if key is not None:
            yield self._secret("ssl.key.password", key.value, key)

    def _is_pem(self, location: Entry, kind: Entry | None) -> bool:
        return (kind.value.strip().upper() if kind is not None else "") == "PEM" or location.value.endswith(
            ".pem"
        )

    # -- placeholders ----------------------------------------------------------------------------

    def _resolved(self, value: str) -> _Resolved:
        """A value that is no secret, with what its placeholders stand for."""
        remarks: list[str] = []
        unknown: list[str] = []

        def replaced(found: re.Match[str]) -> str:
            text, name = self._meant(found)
            (unknown if text is None else remarks).append(name)
            return text or ""

        text = _PLACEHOLDER.sub(replaced, value)
        text = _OF_SHELL.sub(replaced, text)
        if unknown:
            return _Resolved(
                None, f"{', '.join(unknown)} has no value here: set it and import again, or write the value"
            )
        return _Resolved(text, f"with the value that {', '.join(remarks)} has now" if remarks else "")

    def _meant(self, found: re.Match[str]) -> tuple[str | None, str]:
        groups = found.groupdict()
        provider, key = (
            groups.get("provider"),
            groups.get("key") or groups.get("braced") or groups.get("bare") or "",
        )
        kind = self._around.providers.get(provider or "", "")
        if provider is None or kind.endswith("EnvVarConfigProvider") or (not kind and provider == "env"):
            return self._around.environ.get(key) or None, key
        path = groups.get("path") or ""
        with suppress(
            OSError, UnicodeDecodeError, InvalidValueError
        ):  # what cannot be read has no value here
            if kind.endswith("DirectoryConfigProvider") and not is_secret(key):
                return (Path(path) / key).read_text(encoding="utf-8").strip(), f"{path}/{key}"
            if (kind.endswith("FileConfigProvider") or provider == "file") and not is_secret(key):
                found_there = {one.key: one.value for one in read_properties(Path(path).read_bytes())}
                return found_there.get(key), f"{key} in {path}"
        return None, f"{key} of {provider}"


def _all(*entries: Entry | None) -> tuple[Entry, ...]:
    return tuple(one for one in entries if one is not None)


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
