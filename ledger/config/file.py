"""Reads a configuration file: where it is, and its tables in the shape that the values take."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from ledger.config.mirror import MirrorConfig
from ledger.config.problems import ADMIN_TABLE, OWN_KEYS, Table, client_properties, flattened, problems_of
from ledger.config.secrets import PropertyValue, SecretReference
from ledger.errors import ConfigurationError, UsageError

CONFIG_VARIABLE = "MIRROR_LEDGER_CONFIG"

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def find_config(option: str | None, environ: Mapping[str, str]) -> Path:
    """The configuration file that was asked for: the option first, then the environment."""
    chosen = option or environ.get(CONFIG_VARIABLE)
    if not chosen:
        raise UsageError(f"no configuration file: pass --config FILE or set {CONFIG_VARIABLE}")
    return Path(chosen)


def load_config(path: Path) -> MirrorConfig:
    """Read and check a file; raises one `ConfigurationError` with every problem."""
    file = str(path)
    raw = _parse(path)
    problems = list(problems_of(raw))
    if problems:
        raise ConfigurationError(file, problems)
    return MirrorConfig.model_validate({"file": file, **_normalised(raw, path.absolute().parent)})


def _parse(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(str(path), [f"is not UTF-8 text: byte {error.start}"]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(str(path), [f"is not TOML: {error}"]) from error


def _normalised(raw: Table, folder: Path) -> Table:
    """The shape that the models take; called on what has no problems."""
    clusters = {name: _cluster_values(name, table, folder) for name, table in raw["clusters"].items()}
    flows = {name: {"name": name, **table} for name, table in raw["flows"].items()}
    return {
        "ledger": {**raw["ledger"], "path": _ledger_path(raw["ledger"]["path"], folder)},
        "clusters": clusters,
        "flows": flows,
        "objectives": raw.get("objectives", {}),
        "apps": raw.get("apps", {}),
    }


def _ledger_path(path: str, folder: Path) -> str:
    """The same place for every command, from wherever it is typed."""
    return path if _URI.match(path) else os.path.abspath(folder / path)


def _cluster_values(name: str, table: Table, folder: Path) -> Table:
    own = {key: table[key] for key in OWN_KEYS if key in table}
    return {
        "name": name,
        **own,
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
