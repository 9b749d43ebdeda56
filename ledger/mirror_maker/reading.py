"""Files of MirrorMaker 2 as entries: keys and values in order, each with its place in the file.

Three forms: properties of the dedicated process; connectors of Kafka Connect, as properties or JSON; and the resource
`KafkaMirrorMaker2` of Strimzi, v1beta2 and v1, which comes to connectors as Strimzi's operator makes them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from ledger.errors import ConfigurationError, InvalidValueError
from ledger.mirror_maker.properties import read_properties

_KIND = "KafkaMirrorMaker2"
_MOST_CHARACTERS = 500_000
_IS_JSON = re.compile(r"(?:\s|//[^\n]*\n)*[{\[]")
"""Behind comments too, which JSON has not: then it says which line is none."""
_IS_RESOURCE = re.compile(rf"^\s*[\"']?kind[\"']?\s*:\s*[\"']?{_KIND}\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value as text; `where`: the line of the file, or the path in it."""

    key: str
    value: str
    where: str


class ConnectorKind(StrEnum):
    """Which of MirrorMaker's connectors."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector of Kafka Connect with all that it is given."""

    kind: ConnectorKind
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class MakerFile:
    """All that a file has: properties of the dedicated process, or connectors.

    `deployment`: how and where a resource runs. `release`: of Kafka, where the file says so. `remarks`: what is to be
    said of the file as a whole.
    """

    name: str
    properties: tuple[Entry, ...] = ()
    connectors: tuple[Connector, ...] = ()
    deployment: tuple[Entry, ...] = ()
    release: tuple[int, ...] | None = None
    remarks: tuple[str, ...] = ()


def read_file(path: Path) -> MakerFile:
    """Read a file of any form; raises `ConfigurationError` where it is none. What it says never quotes a value."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            str(path), [f"cannot be read: {error.strerror}; nothing was imported"]
        ) from error
    try:
        return parsed(str(path), content)
    except InvalidValueError as error:
        raise ConfigurationError(str(path), [f"{error}; nothing was imported"]) from None
    except RecursionError:
        raise ConfigurationError(str(path), ["is nested too deeply; nothing was imported"]) from None


def parsed(name: str, content: bytes) -> MakerFile:
    """The same of what a file holds; raises `InvalidValueError`."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    if _IS_JSON.match(text):
        return _of_json(name, text)
    if _IS_RESOURCE.search(text):
        return _of_yaml(name, text)
    if name.endswith((".yaml", ".yml")):
        raise InvalidValueError(f"holds no resource of kind {_KIND}")
    return _of_properties(name, content)


# Properties ---------------------------------------------------------------------------------------


def _of_properties(name: str, content: bytes) -> MakerFile:
    entries = tuple(Entry(one.key, one.value, f"line {one.line}") for one in read_properties(content))
    remarks = []
    if any(byte > 0x7F for byte in content):
        remarks.append(
            "it has characters beyond ASCII: Java reads ISO 8859-1, so of UTF-8 it makes other characters, and so "
            "does this import; write them as \\uXXXX"
        )
    kind = next((_kind(entry.value) for entry in reversed(entries) if entry.key == "connector.class"), None)
    has_flows = any("->" in entry.key for entry in entries)
    if kind is not None and not has_flows:
        return MakerFile(name, connectors=(Connector(kind, entries),), remarks=tuple(remarks))
    if not any(entry.key == "clusters" for entry in entries):
        raise InvalidValueError(
            "has no key `clusters`, and no connector.class of MirrorMaker 2: it is no file of the dedicated process, "
            "of a connector, nor a resource KafkaMirrorMaker2"
        )
    return MakerFile(name, properties=entries, remarks=tuple(remarks))


def _kind(class_name: str) -> ConnectorKind | None:
    short = class_name.strip().rpartition(".")[2]
    return ConnectorKind(short) if short in tuple(ConnectorKind) else None


# Kafka Connect ------------------------------------------------------------------------------------


def _of_json(name: str, text: str) -> MakerFile:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidValueError(
            f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError:
        raise InvalidValueError("has a number with too many digits") from None
    bodies = found if isinstance(found, list) else [found]
    connectors: list[Connector] = []
    others: list[str] = []
    for number, body in enumerate(bodies):
        path = f"[{number}]." if isinstance(found, list) else ""
        for where, config in _configs(body, path):
            kind = _kind(str(config.get("connector.class", "")))
            if kind is None:
                others.append(where or "the object")
                continue
            entries = tuple(Entry(key, _text(value), f"{where}{key}") for key, value in config.items())
            connectors.append(Connector(kind, entries))
    if not connectors:
        raise InvalidValueError("has no connector whose connector.class is one of MirrorMaker 2")
    remarks = tuple(f"{where} is no connector of MirrorMaker 2 and was left out" for where in others)
    return MakerFile(name, connectors=tuple(connectors), remarks=remarks)


def _configs(body: object, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A connector as it is posted (with `config`), as it is put (bare), or several by name as Connect lists them."""
    if not isinstance(body, dict):
        raise InvalidValueError("a connector is an object of JSON with its configuration")
    if isinstance(body.get("config"), dict):
        yield f"{path}config.", body["config"]
    elif isinstance(body.get("info"), dict) and isinstance(body["info"].get("config"), dict):
        yield f"{path}info.config.", body["info"]["config"]
    elif body and all(isinstance(value, dict) for value in body.values()):
        for key, value in body.items():
            yield from _configs(value, f"{path}{key}.")
    else:
        yield path, body


def _text(value: object) -> str:
    """As Kafka Connect takes a value of JSON or YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


# Strimzi ------------------------------------------------------------------------------------------


def _of_yaml(name: str, text: str) -> MakerFile:
    try:
        documents = [one for one in yaml.load_all(text, Loader=yaml.BaseLoader) if isinstance(one, dict)]
    except yaml.YAMLError as error:
        raise InvalidValueError(f"is not YAML: {_trouble(error)}") from None
    _require_small(documents)
    resources = [one for one in documents if one.get("kind") == _KIND]
    connectors: list[Connector] = []
    deployment: list[Entry] = []
    release = None
    for number, resource in enumerate(resources, start=1):
        spec = resource.get("spec")
        path = "spec" if len(resources) == 1 else f"{_KIND} {number}: spec"
        if not isinstance(spec, dict):
            raise InvalidValueError(f"{path} is missing")
        release = _release(spec.get("version")) or release
        connectors += _connectors(spec, path)
        deployment += _rest(spec, path)
    remarks = []
    if len(documents) > len(resources):
        remarks.append(f"resources of other kinds than {_KIND} were left out")
    return MakerFile(
        name,
        connectors=tuple(connectors),
        deployment=tuple(deployment),
        release=release,
        remarks=tuple(remarks),
    )


def _require_small(documents: Iterable[object]) -> None:
    """Raise `InvalidValueError` where aliases stand for more than anybody writes: each is followed wherever it is."""
    waiting, size = list(documents), 0
    while waiting:
        one = waiting.pop()
        size += len(one) if isinstance(one, str) else 1
        waiting += (*one, *one.values()) if isinstance(one, dict) else one if isinstance(one, list) else ()
        if size + len(waiting) > _MOST_CHARACTERS:
            raise InvalidValueError(f"comes to more than {_MOST_CHARACTERS:,} characters with its aliases")


def _trouble(error: yaml.YAMLError) -> str:
    """What and where, without the text around it: that may hold a secret."""
    mark = getattr(error, "problem_mark", None)
    place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    return f"{getattr(error, 'problem', None) or 'it cannot be parsed'}{place}"


def _release(version: object) -> tuple[int, ...] | None:
    found = re.match(r"(\d+)\.(\d+)", str(version or ""))
    return (int(found[1]), int(found[2])) if found else None


_PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
_PARTS = {
    "sourceConnector": ConnectorKind.SOURCE,
    "checkpointConnector": ConnectorKind.CHECKPOINT,
    "heartbeatConnector": ConnectorKind.HEARTBEAT,
}
_OF_MIRROR = {*_PATTERNS, *_PARTS, "source", "sourceCluster", "targetCluster"}
_OF_CLUSTER = {"alias", "bootstrapServers", "tls", "authentication", "config"}
_STORAGE = {
    "groupId": "group.id",
    "configStorageTopic": "config.storage.topic",
    "offsetStorageTopic": "offset.storage.topic",
    "statusStorageTopic": "status.storage.topic",
}


def _connectors(spec: Mapping[str, Any], path: str) -> Iterator[Connector]:
    clusters = {
        str(one.get("alias", "")): (one, f"{path}.clusters[{number}]")
        for number, one in enumerate(_list(spec.get("clusters"), f"{path}.clusters"))
    }
    for number, mirror in enumerate(_list(spec.get("mirrors"), f"{path}.mirrors")):
        where = f"{path}.mirrors[{number}]"
        source = _end(mirror, "source", clusters, where)
        target: tuple[Mapping[str, Any], str] = (
            (spec["target"], f"{path}.target")
            if isinstance(spec.get("target"), dict)
            else _end(mirror, "target", clusters, where)
        )
        shared = (
            *_cluster_entries(*source, "source.cluster."),
            *_cluster_entries(*target, "target.cluster."),
        )
        patterns = tuple(
            Entry(_PATTERNS[key], _text(mirror[key]), f"{where}.{key}") for key in _PATTERNS if key in mirror
        )
        has_any = False
        for part, kind in _PARTS.items():
            if part in mirror:
                own = _own_entries(mirror[part], f"{where}.{part}")
                yield Connector(kind, (*shared, *own, *patterns))
                has_any = has_any or kind is ConnectorKind.SOURCE
        if not has_any:
            # Without a source connector nothing is mirrored: Strimzi makes none by itself.
            disabled = Entry("enabled", "false", f"{where}: no sourceConnector")
            yield Connector(ConnectorKind.SOURCE, (*shared, *patterns, disabled))


def _list(value: object, where: str) -> list[Mapping[str, Any]]:
    if value in (None, ""):
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise InvalidValueError(f"{where} is a list of objects")
    return value


def _end(
    mirror: Mapping[str, Any], side: str, clusters: Mapping[str, tuple[Mapping[str, Any], str]], where: str
) -> tuple[Mapping[str, Any], str]:
    if isinstance(mirror.get(side), dict):
        return mirror[side], f"{where}.{side}"
    alias = str(mirror.get(f"{side}Cluster", ""))
    if alias not in clusters:
        raise InvalidValueError(f"{where}: its {side} cluster is none of spec.clusters")
    return clusters[alias]


def _own_entries(part: object, where: str) -> Iterator[Entry]:
    """What a connector is given: `tasksMax` and its configuration."""
    if not isinstance(part, dict):
        return
    if "tasksMax" in part:
        yield Entry("tasks.max", _text(part["tasksMax"]), f"{where}.tasksMax")
    config = part.get("config")
    for key, value in config.items() if isinstance(config, dict) else ():
        yield Entry(key, _text(value), f"{where}.config.{key}")


def _cluster_entries(cluster: Mapping[str, Any], where: str, side: str) -> Iterator[Entry]:
    """Properties that the operator makes of a cluster of the resource."""
    yield Entry(f"{side}alias", str(cluster.get("alias", "")), f"{where}.alias")
    yield Entry(
        f"{side}bootstrap.servers", _text(cluster.get("bootstrapServers")), f"{where}.bootstrapServers"
    )
    tls, login = cluster.get("tls"), cluster.get("authentication")
    has_tls = "tls" in cluster
    trusted = tls.get("trustedCertificates") if isinstance(tls, dict) else None
    if isinstance(trusted, list) and trusted:
        places = (
            f"{one.get('secretName', '')}/{one.get('certificate') or one.get('pattern') or ''}"
            for one in trusted
        )
        value = "".join(f"${{secrets:{place}}}" for place in places)
        yield Entry(f"{side}ssl.truststore.certificates", value, f"{where}.tls.trustedCertificates")
    is_sasl = False
    if isinstance(login, dict):
        is_sasl = login.get("type") not in (None, "", "tls", "custom") or login.get("sasl") == "true"
        yield from _login_entries(login, f"{where}.authentication", side)
    protocol = ("SASL_" if is_sasl else "") + ("SSL" if has_tls else "PLAINTEXT")
    said_by = f"{where}.{'tls' if has_tls else 'authentication' if is_sasl else 'tls (not set)'}"
    yield Entry(f"{side}security.protocol", protocol, said_by)
    config = cluster.get("config")
    for key, value in config.items() if isinstance(config, dict) else ():
        yield Entry(f"{side}{key}", _text(value), f"{where}.config.{key}")
    for key, value in cluster.items():
        if key in _STORAGE:
            yield Entry(_STORAGE[key], _text(value), f"{where}.{key}")
        elif key not in _OF_CLUSTER:
            yield Entry(f"{side}{key}", _text(value), f"{where}.{key}")


_OAUTH = {
    "clientId": "client.credentials.client.id",
    "clientSecret": "client.credentials.client.secret",
    "tokenEndpointUri": "token.endpoint.url",
}


def _login_entries(login: Mapping[str, Any], where: str, side: str) -> Iterator[Entry]:
    kind = str(login.get("type", ""))
    if kind == "tls":
        pair = login.get("certificateAndKey")
        for key, name in (("certificate", "ssl.keystore.certificate.chain"), ("key", "ssl.keystore.key")):
            if isinstance(pair, dict):
                place = f"{pair.get('secretName', '')}/{pair.get(key, '')}"
                yield Entry(f"{side}{name}", f"${{secrets:{place}}}", f"{where}.certificateAndKey.{key}")
        return
    if kind in ("plain", "scram-sha-256", "scram-sha-512"):
        module = "plain.PlainLoginModule" if kind == "plain" else "scram.ScramLoginModule"
        secret = login.get("passwordSecret")
        place = (
            f"{secret.get('secretName', '')}/{secret.get('password', '')}" if isinstance(secret, dict) else ""
        )
        yield Entry(f"{side}sasl.mechanism", kind.upper(), f"{where}.type")
        yield Entry(
            f"{side}sasl.jaas.config",
            f"org.apache.kafka.common.security.{module} required "
            f'username="{login.get("username", "")}" password="${{secrets:{place}}}";',
            where,
        )
        return
    if kind == "oauth":
        yield Entry(f"{side}sasl.mechanism", "OAUTHBEARER", f"{where}.type")
    config = login.get("config")
    for key, value in config.items() if isinstance(config, dict) else ():
        yield Entry(f"{side}{key}", _text(value), f"{where}.config.{key}")
    for key, value in login.items():
        if key not in ("type", "config", "sasl"):
            name = _OAUTH.get(key) or re.sub(r"([A-Z])", lambda found: f".{found[1].lower()}", key)
            is_secret = isinstance(value, dict) and "secretName" in value
            given = (
                f"${{secrets:{value['secretName']}/{value.get('key', '')}}}" if is_secret else _text(value)
            )
            yield Entry(f"{side}sasl.oauthbearer.{name}", given, f"{where}.{key}")


def _rest(spec: Mapping[str, Any], path: str) -> Iterator[Entry]:
    """What is about the deployment, or of nothing that is known."""
    for key, value in spec.items():
        if key == "mirrors":
            for number, mirror in enumerate(_list(value, f"{path}.mirrors")):
                where = f"{path}.mirrors[{number}]"
                yield from _unknown(mirror, _OF_MIRROR, where)
                for part in _PARTS:
                    if isinstance(mirror.get(part), dict):
                        yield from _unknown(mirror[part], {"tasksMax", "config"}, f"{where}.{part}")
        elif key not in ("clusters", "target"):
            yield Entry(key, _text(value), f"{path}.{key}")


def _unknown(table: Mapping[str, Any], known: Iterable[str], where: str) -> Iterator[Entry]:
    for key, value in table.items():
        if key not in set(known):
            yield Entry(key, _text(value), f"{where}.{key}")
