"""The configuration file, and everything that is wrong with it in sentences that name the key."""

import os
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from ledger.config.flows import opposite_problems, overlap_problems, ring_problems
from ledger.config.mirror import (
    ApprovalsConfig,
    EvidenceConfig,
    LedgerConfig,
    LogsConfig,
    MetricsConfig,
    MirrorConfig,
    ObjectivesConfig,
    ServeConfig,
)
from ledger.config.values import (
    ADDRESS_PROPERTIES,
    CLIENT_RACK,
    NAME_PATTERN,
    OWN_PROPERTIES,
    PRINCIPAL_PATTERN,
    SECRET_PROPERTIES,
    SECURITY_PROPERTIES,
    STORE_OPTIONS,
    STORE_SECRETS,
    TUNING_PROPERTIES,
    UNUSABLE_SECURITY,
    AppConfig,
    FlowConfig,
    Listen,
    PropertyValue,
    SecretReference,
    TargetMode,
)
from ledger.errors import ConfigurationError, UsageError
from ledger.topics.naming import DEAD_LETTERS, SALVAGED, NamingKind

# Problems -----------------------------------------------------------------------------------------
# Everything that is wrong with a configuration file, in sentences that name the key.


Table = dict[str, Any]

OWN_KEYS = ("bootstrap_servers", "mirror_principal")
"""Keys of a cluster's table that are no client properties."""
_SENTENCES = {"missing": "is missing", "extra_forbidden": "unknown key"}
_MISSPELT = 0.9
_ADDRESS = re.compile(r"[^\s:/]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
_CLIENT_PROPERTIES = SECURITY_PROPERTIES | TUNING_PROPERTIES | {CLIENT_RACK}
_LISTENING: "dict[str, type[MetricsConfig | ServeConfig]]" = {"metrics": MetricsConfig, "serve": ServeConfig}
"""Sections that say where others may ask this program."""
ADMIN_TABLE = "admin"
"""The table of client properties of those credentials that change access control lists."""


def flattened(table: Table, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested tables as dotted names; a table of `env` or `file` is a value."""
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and not _is_meant_as_reference(value):
            yield from flattened(value, f"{name}.")
        else:
            yield name, value


def _is_meant_as_reference(value: Table) -> bool:
    return bool(value) and value.keys() <= {"env", "file"}


def problems_of(raw: Table) -> Iterator[str]:
    for key in raw.keys() - {
        "ledger",
        "clusters",
        "flows",
        "objectives",
        "apps",
        "logs",
        "evidence",
        "approvals",
        *_LISTENING,
    }:
        yield f"{key}: unknown key"
    for section in ("ledger", "clusters", "flows"):
        if not isinstance(raw.get(section), dict) or not raw[section]:
            yield f"{section}: a table [{section}{'' if section == 'ledger' else '.NAME'}] is needed"
    if raw.get("ledger"):
        ledger = dict(_table(raw, "ledger"))
        yield from _store_problems(ledger.pop("store", {}))
        yield from _model_problems(LedgerConfig, ledger, "ledger")
        if ("keep_facts_days" in ledger) != ("archive" in ledger):
            yield "ledger: keep_facts_days and archive belong together: facts that leave have to lie somewhere"
    yield from _section_problems(raw)
    yield from _apps_problems(raw.get("apps", {}))
    clusters, flows = _table(raw, "clusters"), _table(raw, "flows")
    for name, table in clusters.items():
        yield from _cluster_problems(name, table)
    for name, table in flows.items():
        yield from _flow_problems(name, table, clusters)
    valid = [flow for name, table in flows.items() if (flow := _valid_flow(name, table)) is not None]
    enabled = [flow for flow in valid if flow.enabled]
    yield from ring_problems(enabled)
    yield from opposite_problems(valid)
    yield from overlap_problems(enabled)


def _store_problems(table: object) -> Iterator[str]:
    where = "ledger.store"
    if not isinstance(table, dict):
        yield f"{where}: is a table, got {type(table).__name__}"
        return
    for key, value in table.items():
        if key not in STORE_OPTIONS:
            yield f"{where}.{key}: unknown key; known are {', '.join(sorted(STORE_OPTIONS))}"
        else:
            yield from _value_problems(f"{where}.{key}", value, is_secret=key in STORE_SECRETS)


def _section_problems(raw: Table) -> Iterator[str]:
    """Of tables of which there is one, or none."""
    models: Mapping[str, type[BaseModel]] = {
        "objectives": ObjectivesConfig,
        "logs": LogsConfig,
        "evidence": EvidenceConfig,
        "approvals": ApprovalsConfig,
    }
    for section, model in models.items():
        if not isinstance(values := raw.get(section, {}), dict):
            yield f"{section}: is a table, got {type(values).__name__}"
        elif section == "evidence" and "key" in values:
            yield from _value_problems("evidence.key", values["key"], is_secret=True)
            yield from _model_problems(model, {key: values[key] for key in values.keys() - {"key"}}, section)
        else:
            yield from _model_problems(model, values, section)
    for section, listening in _LISTENING.items():
        yield from _listening_problems(section, listening, raw.get(section, {}))


def _listening_problems(
    section: str, model: "type[MetricsConfig | ServeConfig]", table: object
) -> Iterator[str]:
    """Whoever reaches this machine could read there: a token keeps them from it."""
    if not isinstance(table, dict):
        yield f"{section}: is a table, got {type(table).__name__}"
        return
    values = {key: value for key, value in table.items() if key != "token"}
    found = list(_model_problems(model, values, section))
    yield from found
    if "token" in table:
        yield from _value_problems(f"{section}.token", table["token"], is_secret=True)
    elif not found and (listen := model.model_validate(values).listen) is not None:
        yield from (f"{section}.{why}" for why in unguarded(listen, has_token=False))


def unguarded(listen: str, *, has_token: bool) -> Iterator[str]:
    """Why nobody may listen at an address without a token."""
    if not has_token and not Listen.parse(listen).is_of_this_machine_alone:
        yield (
            f'listen: other machines can reach {listen}, so a token is needed: token = {{ file = "PATH" }} or '
            '{ env = "VARIABLE" }; or listen at 127.0.0.1, behind a proxy that asks who it is'
        )


def _apps_problems(tables: object) -> Iterator[str]:
    if not isinstance(tables, dict):
        yield f"apps: is a table [apps.NAME], got {type(tables).__name__}"
        return
    apps_of: dict[str, list[str]] = defaultdict(list)
    for name, table in tables.items():
        where = f"apps.{name}"
        yield from _name_problems(name, where)
        if not isinstance(table, dict):
            yield f"{where}: is a table, got {type(table).__name__}"
            continue
        found = list(_model_problems(AppConfig, table, where))
        yield from found
        if not found:
            for group in dict.fromkeys(table["groups"]):
                apps_of[group].append(name)
    for group, names in apps_of.items():
        if len(names) > 1:
            yield f"apps: group {group!r} is one of {' and of '.join(names)}: say all that it writes in one place"


def _table(raw: Table, key: str) -> Table:
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def _model_problems(model: type[BaseModel], values: Table, where: str) -> Iterator[str]:
    try:
        model.model_validate(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False, include_context=False):
            sentence = _SENTENCES.get(detail["type"], detail["msg"].removeprefix("Value error, "))
            yield f"{_key_path(where, detail['loc'])}: {sentence}"


def _key_path(where: str, location: tuple[int | str, ...]) -> str:
    """`flows.east-to-west.topics[0]`; the name of a table is reported as the table."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location if part != "name"]
    return where + "".join(parts)


def _name_problems(name: str, where: str) -> Iterator[str]:
    if not re.fullmatch(NAME_PATTERN, name):
        yield f"{where}: a name has letters, digits, dot, underscore and hyphen only, got {name!r}"


def _cluster_problems(name: str, table: object) -> Iterator[str]:
    where = f"clusters.{name}"
    if name.endswith(DEAD_LETTERS):
        yield f"{where}: names that end in {DEAD_LETTERS!r} are those of flows that put dead letters aside"
    yield from _name_problems(name, where)
    if not isinstance(table, dict):
        yield f"{where}: is a table, got {type(table).__name__}"
        return
    yield from _address_problems(table, where)
    principal = table.get("mirror_principal", "User:mirror")
    if not isinstance(principal, str) or not re.fullmatch(PRINCIPAL_PATTERN, principal):
        yield f"{where}.mirror_principal: is a principal as Kafka writes it, User:NAME, got {principal!r}"
    yield from _properties_problems(client_properties(table), where)
    admin = table.get(ADMIN_TABLE, {})
    if isinstance(admin, dict):
        yield from _properties_problems(admin, f"{where}.{ADMIN_TABLE}")
    else:
        yield f"{where}.{ADMIN_TABLE}: is a table of client properties, got {type(admin).__name__}"


def client_properties(table: Table) -> Table:
    """What of a cluster's table is handed to clients."""
    return {key: value for key, value in table.items() if key not in (*OWN_KEYS, ADMIN_TABLE)}


def _properties_problems(table: Table, where: str) -> Iterator[str]:
    seen: set[str] = set()
    for key, value in flattened(table):
        if key in seen:
            yield f"{where}.{key}: is given twice, quoted and as a nested table"
        seen.add(key)
        yield from _property_problems(f"{where}.{key}", key, value)


def _address_problems(table: Table, where: str) -> Iterator[str]:
    servers = table.get("bootstrap_servers")
    if servers is None:
        yield f"{where}.bootstrap_servers: is missing"
    elif not isinstance(servers, str):
        yield f"{where}.bootstrap_servers: is text host:port[,host:port...], got {type(servers).__name__}"
    else:
        protocol = next((value for key, value in flattened(table) if key == "security.protocol"), "PLAINTEXT")
        for address in _addresses(servers):
            scheme, _, rest = address.rpartition("://")
            if not _ADDRESS.fullmatch(rest):
                yield f"{where}.bootstrap_servers: is host:port[,host:port...], got {address!r}"
            elif "://" in address and scheme.upper() != str(protocol).upper():
                yield (
                    f"{where}.bootstrap_servers: {address!r} speaks of {scheme}, and security.protocol is {protocol}: "
                    "that key alone decides; leave the scheme out, or write the same"
                )


def _addresses(servers: str) -> list[str]:
    """The addresses of a list, without the comma that may stand behind the last one."""
    return [address.strip() for address in servers.strip().removesuffix(",").split(",")]


def _property_problems(where: str, key: str, value: object) -> Iterator[str]:
    if key in OWN_KEYS:
        yield f"{where}: is written in the table of the cluster"
    elif key in OWN_PROPERTIES:
        yield f"{where}: is set by the mirror itself and cannot be configured"
    elif key in ADDRESS_PROPERTIES:
        yield f"{where}: is written bootstrap_servers"
    elif (instead := _instead_of(key)) is not None:
        yield f"{where}: cannot be used: {instead}"
    elif key not in _CLIENT_PROPERTIES:
        yield f"{where}: librdkafka has no such client property{_meant(key)}"
    else:
        yield from _value_problems(where, value, is_secret=key in SECRET_PROPERTIES)


def _value_problems(where: str, value: object, *, is_secret: bool) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _model_problems(SecretReference, value, where)
    elif is_secret:
        yield f'{where}: a secret is written as a reference, {{ env = "VARIABLE" }} or {{ file = "PATH" }}'
    elif not isinstance(value, str | bool | int | float):
        yield f"{where}: is text, a number or true/false, got {type(value).__name__}"


def _instead_of(key: str) -> str | None:
    """What to write for a security property that the mirror's connections cannot use; None: it can, or it is none."""
    if key in SECURITY_PROPERTIES or get_close_matches(key, SECURITY_PROPERTIES, n=1, cutoff=_MISSPELT):
        return None
    return next((instead for start, instead in UNUSABLE_SECURITY.items() if key.startswith(start)), None)


def _meant(key: str) -> str:
    """The property that was probably meant, or nothing."""
    found = get_close_matches(key, sorted({*_CLIENT_PROPERTIES, *OWN_KEYS}), n=1, cutoff=0.75)
    return f"; is {found[0]} meant?" if found else ""


def _flow_problems(name: str, table: object, clusters: Table) -> Iterator[str]:
    where = f"flows.{name}"
    if name.endswith(SALVAGED):
        yield f"{where}: names that end in {SALVAGED!r} are those of flows that salvage extras"
    yield from _name_problems(name, where)
    if not isinstance(table, dict):
        yield f"{where}: is a table, got {type(table).__name__}"
        return
    if "name" in table:
        yield f"{where}.name: unknown key"
    yield from _model_problems(FlowConfig, {**table, "name": "checked-above"}, where)
    for end in ("source", "target"):
        cluster = table.get(end)
        if isinstance(cluster, str) and cluster not in clusters:
            known = ", ".join(sorted(clusters)) or "none"
            yield f"{where}.{end}: there is no cluster {cluster!r}; clusters are {known}"
    yield from _naming_problems(table, where)
    if table.get("delete_topics") is True and table.get("target_mode") == TargetMode.SHARED:
        yield f"{where}.delete_topics: a shared target topic holds what others wrote and is never deleted"


def _naming_problems(table: Table, where: str) -> Iterator[str]:
    naming = table.get("topic_naming", NamingKind.PREFIX)
    if naming != NamingKind.PREFIX and "prefix" in table:
        yield f'{where}.prefix: has no meaning with topic_naming = "{naming}"'
    if naming == NamingKind.RENAME and not table.get("rename"):
        yield f'{where}.rename: topic_naming = "rename" needs at least one rule'
    if naming != NamingKind.RENAME and "rename" in table:
        yield f'{where}.rename: has a meaning with topic_naming = "rename" only'
    is_one_cluster = table.get("source") == table.get("target") is not None
    if naming == NamingKind.IDENTITY and is_one_cluster:
        yield f"{where}.topic_naming: identity on one cluster would copy each topic onto itself"


def _valid_flow(name: str, table: object) -> FlowConfig | None:
    """None for a flow whose own problems are reported already, but for those of its name."""
    try:
        flow = FlowConfig.model_validate(
            {**table, "name": "checked-above"} if isinstance(table, dict) else table
        )
    except ValidationError:
        return None
    if flow.topic_naming is NamingKind.RENAME and not flow.rename:
        return None
    return flow.model_copy(update={"name": name})


# File ---------------------------------------------------------------------------------------------
# Reads a configuration file: where it is, and its tables in the shape that the values take.


CONFIG_VARIABLE = "MIRROR_LEDGER_CONFIG"

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def find_config(option: str | None, environ: Mapping[str, str]) -> Path:
    """The configuration file that was asked for: the option first, then the environment."""
    chosen = option or environ.get(CONFIG_VARIABLE)
    if not chosen:
        raise UsageError(f"no configuration file: pass --config FILE or set {CONFIG_VARIABLE}")
    return Path(chosen)


def load_config(path: Path) -> MirrorConfig:
    """Read and check a file; raises one `ConfigurationError` with every problem.

    What it says of the ledger's store is in the environment of this process afterwards.
    """
    config = checked_config(_read(path), path)
    # Libraries that read and write the ledger, in this process and in those that it starts, look there.
    os.environ.update(config.ledger.store_environment(os.environ))
    return config


def checked_config(text: str, path: Path) -> MirrorConfig:
    """What a file of that path says with this text; raises one `ConfigurationError` with every problem."""
    file = str(path)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(file, [f"is not TOML: {error}"]) from error
    problems = list(problems_of(raw))
    if problems:
        raise ConfigurationError(file, problems)
    return MirrorConfig.model_validate({"file": file, **_normalised(raw, path.absolute().parent)})


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), [f"is not UTF-8 text: byte {error.start}"]) from error


def _normalised(raw: Table, folder: Path) -> Table:
    """The shape that the models take; called on what has no problems."""
    clusters = {name: _cluster_values(name, table, folder) for name, table in raw["clusters"].items()}
    flows = {name: {"name": name, **table} for name, table in raw["flows"].items()}
    return {
        "ledger": {
            **raw["ledger"],
            "path": _ledger_path(raw["ledger"]["path"], folder),
            **{key: _ledger_path(raw["ledger"][key], folder) for key in ("archive",) if key in raw["ledger"]},
            "store": _properties(raw["ledger"].get("store", {}), folder),
        },
        "clusters": clusters,
        "flows": flows,
        "objectives": raw.get("objectives", {}),
        "apps": raw.get("apps", {}),
        "logs": raw.get("logs", {}),
        "evidence": {
            key: _property_value(value, folder) if key == "key" else _ledger_path(value, folder)
            for key, value in raw.get("evidence", {}).items()
        },
        "approvals": raw.get("approvals", {}),
        **{section: _listening_values(raw.get(section, {}), folder) for section in _LISTENING},
    }


def _listening_values(table: Table, folder: Path) -> Table:
    """With the file of a token as it is found from anywhere."""
    return {key: _property_value(value, folder) if key == "token" else value for key, value in table.items()}


def _ledger_path(path: str, folder: Path) -> str:
    """The same place for every command, from wherever it is typed."""
    return path if _URI.match(path) else os.path.abspath(folder / path)


def _cluster_values(name: str, table: Table, folder: Path) -> Table:
    own = {key: table[key] for key in OWN_KEYS if key in table}
    servers = ",".join(address.rpartition("://")[2] for address in _addresses(table["bootstrap_servers"]))
    return {
        "name": name,
        **own,
        "bootstrap_servers": servers,
        "properties": _properties(client_properties(table), folder),
        "admin_properties": _properties(table.get(ADMIN_TABLE, {}), folder),
    }


def _properties(table: Table, folder: Path) -> dict[str, PropertyValue]:
    return {key: _property_value(value, folder) for key, value in flattened(table)}


def _property_value(value: object, folder: Path) -> PropertyValue:
    if isinstance(value, dict):
        file = value.get("file")
        located = {**value, "file": os.path.join(folder, file)} if file is not None else value
        return SecretReference.model_validate(located)
    return str(value).lower() if isinstance(value, bool) else str(value)
