"""What MirrorMaker 2 makes of its entries: clusters with their properties, and flows with the settings that count.

In the dedicated process a key counts for one flow (`A->B.topics`), for one cluster (`A.security.protocol`), or at the
top for all; a closer place wins. What stands in the wrong place, is misspelt, or comes again later is not used at all,
and MirrorMaker says nothing of it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from ledger.config.values import CLIENT_RACK
from ledger.errors import InvalidValueError
from ledger.mirror_maker import keys
from ledger.mirror_maker.keys import CLIENT_KEYS, Form, is_secret, meaning_of, nearest
from ledger.mirror_maker.patterns import parts_of
from ledger.mirror_maker.reading import ConnectorKind, Entry, MakerFile

OFFSET_RESET = "consumer.auto.offset.reset"
_ROLES = ("consumer.", "producer.", "admin.")
_NUMBER = re.compile(r"\s*[+-]?\d+\s*")
Settings = Mapping[str, Entry]
Release = tuple[int, ...]
"""Major and minor number."""


def _forgets(release: Release | None) -> bool:
    """Whether it is known to be of Kafka 4.0 or later, which ignores old names of keys."""
    return release is not None and release >= (4,)


@dataclass(frozen=True, slots=True)
class MakerCluster:
    """A cluster by the name that it gets here, with the properties of its clients that count."""

    name: str
    properties: Settings


@dataclass(frozen=True, slots=True)
class MakerFlow:
    """One direction. `settings`: by connector what counts for it. `alias`, `target_alias`: what names are made of.

    `release`: of Kafka that MirrorMaker is of; None: not known.
    """

    source: str
    target: str
    alias: str
    target_alias: str
    is_enabled: bool
    settings: Mapping[ConnectorKind, Settings]
    release: Release | None = None

    def setting(self, name: str, kind: ConnectorKind = ConnectorKind.SOURCE) -> Entry | None:
        """What counts for a connector; an old name counts where the new one is not given."""
        found = self.settings.get(kind, {})
        old = next(
            (old for old, new in keys.OLD_NAMES.items() if new == name and not _forgets(self.release)), None
        )
        return found.get(name) or (found.get(old) if old else None)

    @property
    def name(self) -> str:
        return f"{self.source}-to-{self.target}"

    @property
    def is_before_4(self) -> bool:
        """Whether it is known to be of a release before Kafka 4.0."""
        return self.release is not None and not _forgets(self.release)


@dataclass(frozen=True, slots=True)
class MakerConfiguration:
    """All of it. `ignored`: why MirrorMaker does not use an entry. `entries`: all, in the order of the files.

    `is_dedicated`: of the dedicated process, not of connectors. `providers`: classes of `config.providers` by name.
    """

    clusters: Mapping[str, MakerCluster]
    flows: tuple[MakerFlow, ...]
    entries: tuple[Entry, ...]
    ignored: Mapping[Entry, str]
    deployment: tuple[Entry, ...] = ()
    providers: Mapping[str, str] = field(default_factory=dict)
    is_dedicated: bool = False


def understood(files: Sequence[MakerFile], release: Release | None = None) -> MakerConfiguration:
    """What several files come to together; raises `InvalidValueError` where they cannot be one configuration.

    `release`: of Kafka that MirrorMaker is of; None: what the files say, if they do.
    """
    dedicated = [file for file in files if file.properties]
    if dedicated and len(files) > 1:
        raise InvalidValueError(
            "properties of the dedicated process are imported by themselves: one file at a time"
        )
    made = _Dedicated(dedicated[0].properties).configuration() if dedicated else _of_connectors(files)
    if not made.flows:
        raise InvalidValueError("mirrors nothing: it names no two clusters")
    known = release or next((file.release for file in files if file.release is not None), None)
    ignored = dict(made.ignored)
    if _forgets(known):
        old = [
            entry for entry in made.entries if entry.key.rpartition("->")[2].endswith(tuple(keys.OLD_NAMES))
        ]
        ignored |= dict.fromkeys(old, "an old name of the key, which Kafka 4.0 and later ignore")
    return replace(made, flows=tuple(replace(flow, release=known) for flow in made.flows), ignored=ignored)


def is_true(value: str) -> bool:
    """As Java's `parseBoolean`: anything else is false."""
    return value.lower() == "true"


def plain_name(alias: str) -> str:
    """An alias as a name of the configuration."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", alias)


# Entries ------------------------------------------------------------------------------------------


def _why_unusable(name: str, value: str) -> str | None:
    """Why a known key does nothing with this value; None: it does."""
    meaning = meaning_of(name)
    if meaning is None or is_secret(name):
        return None
    stripped = value.strip()
    if meaning.form is Form.BOOLEAN and name != "enabled" and stripped.lower() not in ("true", "false"):
        return f"neither true nor false{_comment(value)}: MirrorMaker's connector does not start with it"
    if meaning.form is Form.NUMBER and not _NUMBER.fullmatch(value):
        return f"no number{_comment(value)}: MirrorMaker's connector does not start with it"
    return None


def _comment(value: str) -> str:
    return ", for what is meant as a comment is part of the value" if " #" in value else ""


def _unknown(name: str, prefix: str = "") -> str:
    meant = nearest(name)
    if meant is None:
        return "neither MirrorMaker nor Kafka's clients have such a key: it never worked"
    return f"no such key, so it never worked; is {prefix}{meant} meant?"


@dataclass(slots=True)
class _Sorting:
    """Entries that count, by name; why others do not."""

    ignored: dict[Entry, str] = field(default_factory=dict)

    def put(self, into: dict[str, Entry], name: str, entry: Entry, prefix: str = "") -> None:
        if meaning_of(name) is None:
            self.ignored[entry] = _unknown(name, prefix)
        elif (why := _why_unusable(name, entry.value)) is not None:
            self.ignored[entry] = why
        else:
            if name in into and into[name].key == entry.key:
                self.ignored[into[name]] = f"{entry.where} has the same key again, and the last one counts"
            into[name] = entry


# The dedicated process ----------------------------------------------------------------------------


class _Dedicated:
    """Sorts the properties of a dedicated process."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = tuple(entries)
        self._sorting = _Sorting()
        clusters = [entry for entry in entries if entry.key == "clusters"]
        self._aliases = list(dict.fromkeys(parts_of(clusters[-1].value)))
        self._top: dict[str, Entry] = {}
        self._of_cluster: dict[str, dict[str, Entry]] = {alias: {} for alias in self._aliases}
        self._of_flow: dict[tuple[str, str], dict[str, Entry]] = {}
        for entry in entries:
            self._sort(entry)

    def configuration(self) -> MakerConfiguration:
        flows = tuple(self._flows())
        names = {alias: plain_name(alias) for alias in self._aliases}
        clusters = {
            names[alias]: MakerCluster(names[alias], self._properties(alias)) for alias in self._aliases
        }
        return MakerConfiguration(
            clusters,
            flows,
            self._entries,
            self._sorting.ignored,
            providers=_providers(self._top),
            is_dedicated=True,
        )

    def _sort(self, entry: Entry) -> None:
        key = entry.key
        if "->" in key:
            self._sort_of_flow(entry)
            return
        if key in self._aliases and entry.value.startswith("->"):
            self._sorting.ignored[entry] = (
                f"the blank ends the key, so this is a key {key!r} that nobody has, and never worked; "
                f"write {key}->{entry.value.removeprefix('->').strip().partition(' ')[0]} without blanks"
            )
            return
        alias = self._alias_of(key)
        if alias is None:
            self._sort_of_top(entry)
            return
        name = key.removeprefix(f"{alias}.")
        if meaning_of(name) is not None and not keys.is_read_of_cluster(name):
            self._sorting.ignored[entry] = (
                f"it is given to the clients of {alias}, which have no such key, so it never worked; "
                f"for a flow write SOURCE->TARGET.{name}"
            )
            return
        self._sorting.put(self._of_cluster[alias], name, entry, f"{alias}.")

    def _sort_of_flow(self, entry: Entry) -> None:
        source, _, rest = entry.key.partition("->")
        target = next(
            (alias for alias in sorted(self._aliases, key=len, reverse=True) if rest.startswith(f"{alias}.")),
            None,
        )
        if source not in self._aliases or target is None or source == target:
            self._sorting.ignored[entry] = (
                f"clusters does not name both, so it never worked{self._meant(source, rest)}"
            )
            return
        name = rest.removeprefix(f"{target}.")
        known = self._of_flow.setdefault((source, target), {})
        self._sorting.put(known, name, entry, f"{source}->{target}.")

    def _meant(self, source: str, rest: str) -> str:
        for given in (source, rest.partition(".")[0]):
            if given not in self._aliases and (near := get_close_matches(given, self._aliases, n=1)):
                return f"; is {near[0]} meant?"
        return ""

    def _alias_of(self, key: str) -> str | None:
        if key in keys.CONNECTOR_KEYS:
            return None
        fitting = [alias for alias in self._aliases if key.startswith(f"{alias}.")]
        return max(fitting, key=len, default=None)

    def _sort_of_top(self, entry: Entry) -> None:
        key = entry.key
        if meaning_of(key) is not None and not keys.is_read_at_top(key):
            places = f"for a flow write SOURCE->TARGET.{key}"
            if keys.is_read_of_cluster(key):
                places = f"for a cluster write ALIAS.{key}, {places}"
            self._sorting.ignored[entry] = f"at the top of the file MirrorMaker does not use it; {places}"
            return
        self._sorting.put(self._top, key, entry)

    def _properties(self, alias: str) -> Settings:
        own = self._of_cluster[alias]
        found = {name: entry for name, entry in self._top.items() if _is_of_client(name)}
        for role in reversed(_ROLES):
            of_role = {
                name.removeprefix(role): entry
                for name, entry in own.items()
                if name.startswith(role) and _is_login(name.removeprefix(role))
            }
            found = {**of_role, **{name: one for name, one in found.items() if name not in of_role}}
        found |= {name: entry for name, entry in own.items() if _is_of_client(name)}
        rack = own.get(f"consumer.{CLIENT_RACK}")
        return found if rack is None else {**found, CLIENT_RACK: rack}

    def _flows(self) -> Iterator[MakerFlow]:
        pairs = list(self._of_flow)
        if not pairs and len(self._aliases) == 2:
            pairs = [(self._aliases[0], self._aliases[1])]
        for source, target in pairs:
            own = self._of_flow.get((source, target), {})
            settings = {name: entry for name, entry in self._top.items() if name in keys.CONNECTOR_KEYS}
            reset = self._of_cluster[source].get(OFFSET_RESET)
            settings = {**settings, **({OFFSET_RESET: reset} if reset else {}), **own}
            if "source.consumer.auto.offset.reset" in own:
                settings[OFFSET_RESET] = own["source.consumer.auto.offset.reset"]
            yield MakerFlow(
                plain_name(source),
                plain_name(target),
                _value(settings, "source.cluster.alias", source),
                _value(settings, "target.cluster.alias", target),
                is_true(_value(own, "enabled", "false")),
                {ConnectorKind.SOURCE: settings, ConnectorKind.CHECKPOINT: settings},
            )


def _providers(settings: Settings) -> dict[str, str]:
    """Classes by the name of the provider."""
    names = {key: re.fullmatch(r"config\.providers\.(.*)\.class", key) for key in settings}
    return {name[1]: settings[key].value for key, name in names.items() if name is not None}


def _value(settings: Settings, name: str, default: str) -> str:
    entry = settings.get(name)
    return default if entry is None else entry.value


def _is_of_client(name: str) -> bool:
    return name in CLIENT_KEYS or name.startswith(("sasl.", "ssl."))


def _is_login(name: str) -> bool:
    return name.startswith(("bootstrap.servers", "security.protocol", "sasl.", "ssl."))


# Kafka Connect ------------------------------------------------------------------------------------


_OF_SOURCE = ("source.cluster.", "source.consumer.", "source.admin.", "consumer.")
_OF_TARGET = ("target.cluster.", "producer.override.", "target.producer.", "target.admin.")


def _of_connectors(files: Sequence[MakerFile]) -> MakerConfiguration:
    sorting, entries = _Sorting(), list[Entry]()
    clusters: dict[str, dict[str, Entry]] = {}
    flows: dict[tuple[str, str], dict[ConnectorKind, Settings]] = {}
    providers: dict[str, str] = {}
    deployment: list[Entry] = []
    for file in files:
        deployment += file.deployment
        for connector in file.connectors:
            shown = [
                Entry(one.key, one.value, one.where if len(files) == 1 else f"{file.name}: {one.where}")
                for one in connector.entries
            ]
            entries += shown
            settings: dict[str, Entry] = {}
            for entry in shown:
                sorting.put(settings, entry.key, entry)
            source, target = _names(settings)
            _add(clusters.setdefault(source, {}), settings, _OF_SOURCE)
            _add(clusters.setdefault(target, {}), settings, _OF_TARGET)
            if "source.consumer.auto.offset.reset" in settings:
                settings[OFFSET_RESET] = settings["source.consumer.auto.offset.reset"]
            flows.setdefault((source, target), {})[connector.kind] = settings
            providers |= _providers(settings)
    return MakerConfiguration(
        {name: MakerCluster(name, properties) for name, properties in clusters.items()},
        tuple(_flow(pair, settings) for pair, settings in flows.items()),
        tuple(dict.fromkeys(entries)),
        sorting.ignored,
        tuple(deployment),
        providers,
    )


def _names(settings: Settings) -> tuple[str, str]:
    source = plain_name(_value(settings, "source.cluster.alias", "source")) or "source"
    target = plain_name(_value(settings, "target.cluster.alias", "target")) or "target"
    return (source, target) if source != target else (source, f"{target}-target")


def _add(properties: dict[str, Entry], settings: Settings, starts: Sequence[str]) -> None:
    """Properties of a cluster: the first connector that says one counts, and in it the first of these places."""
    for start in starts:
        for key, entry in settings.items():
            name = key.removeprefix(start)
            if name != key and key not in keys.CONNECTOR_KEYS and (_is_of_client(name) or start == starts[0]):
                properties.setdefault(name, entry)


def _flow(pair: tuple[str, str], settings: Mapping[ConnectorKind, Settings]) -> MakerFlow:
    main = settings.get(ConnectorKind.SOURCE) or next(iter(settings.values()))
    is_enabled = ConnectorKind.SOURCE in settings and is_true(_value(main, "enabled", "true").strip())
    return MakerFlow(
        *pair,
        _value(main, "source.cluster.alias", "source"),
        _value(main, "target.cluster.alias", "target"),
        is_enabled,
        settings,
    )
