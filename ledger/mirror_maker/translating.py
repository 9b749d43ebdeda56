"""What MirrorMaker's settings come to in this program's keys: flow by flow, and in a table of every key.

A setting that the file does not give has MirrorMaker's default, which is not always this program's. Where that decides
which topics and groups are mirrored, the default is written out; the rest is a note.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ledger.errors import UsageError
from ledger.mirror_maker.choices import Choice, TableChoices, Translation, some
from ledger.mirror_maker.configuration import OFFSET_RESET, MakerConfiguration, MakerFlow, is_true
from ledger.mirror_maker.keys import CONNECTOR_KEYS, HIDDEN, Verdict, meaning_of, shown_key, shown_value
from ledger.mirror_maker.logins import NOT_LOOKED_UP, cluster_choices
from ledger.mirror_maker.patterns import parts_of, pattern_list
from ledger.mirror_maker.reading import ConnectorKind, Entry
from ledger.mirror_maker.selection import (
    GROUPS,
    GROUPS_EXCLUDE,
    TOPICS,
    TOPICS_EXCLUDE,
    TOPICS_EXCLUDE_BEFORE_4,
    MakerPolicy,
    MakerSelection,
    PolicyKind,
    separator_pattern,
)
from ledger.topics.naming import RESERVED

_IDENTITY = ("IdentityReplicationPolicy", "CustomMM2ReplicationPolicy")
"""Names of classes that keep names: Kafka's and Strimzi's, and the one of Amazon's examples."""
_MOST_TASKS = 64
_MOST_SYNC_S = 3600.0
_NOT_FOLLOWED = "min.insync.replicas"
"""What MirrorMaker leaves out of settings by default, and this program does not."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """What became of one key of the file, or of a default that nobody wrote."""

    where: str
    key: str
    value: str | None
    verdict: Verdict
    taken_as: str | None
    remark: str | None


# Names --------------------------------------------------------------------------------------------


def policy_of(flow: MakerFlow, kind: ConnectorKind = ConnectorKind.SOURCE) -> MakerPolicy:
    """Which names the flow gives."""
    given, separator = (
        flow.setting("replication.policy.class", kind),
        flow.setting("replication.policy.separator", kind),
    )
    short = "DefaultReplicationPolicy" if given is None else given.value.strip().rpartition(".")[2]
    between = "." if separator is None else separator.value
    inner = flow.setting("replication.policy.internal.topic.separator.enabled", kind)
    internal = "." if inner is not None and not is_true(inner.value.strip()) else between
    found = PolicyKind.IDENTITY if short in _IDENTITY else PolicyKind.OTHER
    if short == "DefaultReplicationPolicy":
        found = PolicyKind.DEFAULT
    return MakerPolicy(found, flow.alias, flow.target_alias, between, internal, flow.is_before_4)


_NAMING = ("replication.policy.class", "replication.policy.separator", "source.cluster.alias")
_OTHER_NAMES = (
    "names topics in another way than the source connector, so MirrorMaker never translated a group to a topic that it "
    "mirrors; here one naming is for both"
)


def _has_other_names(flow: MakerFlow) -> bool:
    """Whether the checkpoint connector names topics in another way than the source connector."""
    kind = ConnectorKind.CHECKPOINT
    return kind in flow.settings and policy_of(flow, kind) != policy_of(flow)


def _excluded_by_default(flow: MakerFlow) -> Sequence[str]:
    return TOPICS_EXCLUDE_BEFORE_4 if flow.is_before_4 else TOPICS_EXCLUDE


def selection_of(flow: MakerFlow) -> MakerSelection:
    """Which topics and groups MirrorMaker takes; lists that it refuses select nothing.

    Raises `UsageError` where a list has a placeholder.
    """

    def taken(name: str, kind: ConnectorKind, default: Sequence[str]) -> Sequence[str]:
        entry = flow.setting(name, kind)
        if entry is not None and "${" in entry.value:
            raise UsageError(f"{name} ({entry.where}) {NOT_LOOKED_UP}; nothing was compared")
        return default if entry is None else pattern_list(entry.value).patterns

    checkpoint = (
        ConnectorKind.CHECKPOINT if ConnectorKind.CHECKPOINT in flow.settings else ConnectorKind.SOURCE
    )
    heartbeats = flow.setting("heartbeats.replication.enabled")
    return MakerSelection(
        policy_of(flow),
        taken("topics", ConnectorKind.SOURCE, TOPICS),
        taken("topics.exclude", ConnectorKind.SOURCE, _excluded_by_default(flow)),
        taken("groups", checkpoint, GROUPS),
        taken("groups.exclude", checkpoint, GROUPS_EXCLUDE),
        heartbeats is None or is_true(heartbeats.value.strip()),
    )


# Flows --------------------------------------------------------------------------------------------


class _Flow:
    """The choices of one flow."""

    def __init__(self, flow: MakerFlow, made: MakerConfiguration) -> None:
        self._flow = flow
        self._made = made
        self._policy = policy_of(flow)
        self._is_undecided = False

    def choices(self) -> tuple[Choice, ...]:
        flow = self._flow
        rest = [
            *self._naming(),
            *self._patterns(),
            *self._groups(),
            *self._start(),
            *self._settings(),
            *self._work(),
        ]
        alias = flow.setting("source.cluster.alias"), flow.setting("target.cluster.alias")
        return (
            Choice("source", flow.source, "", some(alias[0])),
            Choice("target", flow.target, "", some(alias[1])),
            *self._enabled(),
            *rest,
        )

    def _enabled(self) -> Iterator[Choice]:
        entry = self._flow.setting("enabled")
        if self._is_undecided:
            remark = "MirrorMaker runs it; remove this line when what is missing below is written"
            yield Choice("enabled", False, remark, some(entry), Verdict.NOT_YET)
        elif self._flow.is_enabled:
            if entry is not None:
                yield Choice("enabled", True, "", (entry,))
        else:
            remark = "MirrorMaker does not mirror this way"
            if entry is None:
                remark = "MirrorMaker mirrors ways that are enabled, and this one is not: remove the line to run it"
            elif entry.value.strip().lower().startswith("true"):
                remark = "a comment or blank behind true is part of the value in Java, which is then false"
            elif entry.value.strip().lower() != "false":
                remark = "what is not true is false in Java, whatever it is"
            yield Choice("enabled", False, remark, some(entry))

    # -- names -----------------------------------------------------------------------------------

    def _naming(self) -> Iterator[Choice]:
        flow, policy = self._flow, self._policy
        yield from self._other_names()
        given, between = (
            flow.setting("replication.policy.class"),
            flow.setting("replication.policy.separator"),
        )
        entries = some(given, between, flow.setting("source.cluster.alias"))
        if policy.kind is PolicyKind.OTHER:
            self._is_undecided = True
            remark = (
                "a class of your own names topics: write topic_naming, and the rules of rename as it does"
            )
            yield Choice("topic_naming", None, remark, some(given), Verdict.NOT_YET)
            return
        if policy.keeps_names:
            is_trick = given is None or given.value.endswith("DefaultReplicationPolicy")
            remark = "without an alias and a separator names stay as they are" if is_trick else ""
            yield Choice("topic_naming", "identity", remark, entries)
            if self._has_way_back():
                yield Choice(
                    "target_mode",
                    "shared",
                    "both ways keep names, in which MirrorMaker would copy records in a circle; here they are known by "
                    "producer id",
                )
            return
        prefix = f"{policy.alias}{policy.separator}"
        if policy.separator == "." and policy.alias:
            if policy.alias != flow.source or entries:
                yield Choice("prefix", policy.alias, "", entries)
        else:
            remark = f"the separator is {policy.separator!r}: orders is called {prefix}orders"
            yield Choice("topic_naming", "rename", remark, entries)
            yield Choice("rename", (("(.*)", f"{prefix}\\1"),), "", entries)

    def _other_names(self) -> Iterator[Choice]:
        kind = ConnectorKind.CHECKPOINT
        if not _has_other_names(self._flow):
            return
        entries = [
            entry
            for name in _NAMING
            if (entry := self._flow.settings[kind].get(name)) is not None
            and (other := self._flow.setting(name)) is not None
            and entry.value != other.value
        ]
        yield Choice(
            "topic_naming",
            None,
            f"the checkpoint connector {_OTHER_NAMES}",
            tuple(entries),
            Verdict.DIFFERS,
            is_shown=False,
        )

    def _has_way_back(self) -> bool:
        flow = self._flow
        return flow.is_enabled and any(
            other.is_enabled
            and (other.source, other.target) == (flow.target, flow.source)
            and policy_of(other).keeps_names
            for other in self._made.flows
        )

    # -- selection -------------------------------------------------------------------------------

    def _patterns(self) -> Iterator[Choice]:
        yield self._list("topics", "topics", TOPICS, "MirrorMaker's default: all")
        yield self._excluded()

    def _list(
        self,
        name: str,
        key: str,
        default: Sequence[str],
        default_remark: str,
        kind: ConnectorKind = ConnectorKind.SOURCE,
    ) -> Choice:
        entry = self._flow.setting(name, kind)
        if entry is None:
            return Choice(key, tuple(default), default_remark)
        found = pattern_list(entry.value)
        if "${" in entry.value or found.refused is not None:
            self._is_undecided = True
            why = NOT_LOOKED_UP if "${" in entry.value else found.refused
            return Choice(
                key, tuple(default) if key == "topics" else None, str(why), (entry,), Verdict.NOT_YET
            )
        remarks = []
        if not found.patterns and name == "topics":
            self._is_undecided = True
            return Choice(
                key, (".*",), "an empty list: MirrorMaker mirrors nothing", (entry,), Verdict.NOT_YET
            )
        if any(re.fullmatch(r"[\w-]+(\.[\w-]+)+", pattern) for pattern in found.patterns):
            remarks.append("as in MirrorMaker, a dot in a name matches any character")
        if entry.key.endswith("blacklist"):
            remarks.append("an old name of the key, which Kafka 4.0 and later ignore")
        return Choice(key, found.patterns, "; ".join(remarks), (entry,))

    def _excluded(self) -> Choice:
        """What the lists leave out, and what else MirrorMaker does by names that lists here can say."""
        made = self._list(
            "topics.exclude", "exclude", _excluded_by_default(self._flow), "MirrorMaker's default"
        )
        policy, listed = self._policy, made.value
        if not isinstance(listed, tuple):
            return made
        remarks = [made.remark]
        more = [pattern for pattern in policy.never_mirrored if pattern not in listed]
        if more:
            remarks.append(
                f"{' and '.join(more)}: names that MirrorMaker never mirrors, whatever its lists say"
            )
        is_default = policy.kind is PolicyKind.DEFAULT and policy.separator not in ("", ".")
        if is_default and policy.target_alias:
            more.append(separator_pattern(policy.target_alias, policy.separator))
            remarks.append("the last: names of copies from the target")
        patterns = (*map(str, listed), *more)
        return Choice("exclude", patterns, "; ".join(filter(None, remarks)), made.entries, made.verdict)

    def _groups(self) -> Iterator[Choice]:
        kind = ConnectorKind.CHECKPOINT
        if kind not in self._flow.settings:
            kind = ConnectorKind.SOURCE
        yield self._list("groups", "groups", GROUPS, "MirrorMaker's default: all", kind)
        yield self._list("groups.exclude", "groups_exclude", GROUPS_EXCLUDE, "MirrorMaker's default", kind)
        synced = self._flow.setting("sync.group.offsets.enabled", kind)
        interval = self._flow.setting("sync.group.offsets.interval.seconds", kind)
        is_synced = synced is not None and is_true(synced.value.strip())
        if synced is not None:
            yield Choice("sync_groups", is_synced, "", (synced,))
        beats = ConnectorKind.HEARTBEAT
        beats = beats if beats in self._flow.settings else ConnectorKind.SOURCE
        for what, of in (("checkpoints", kind), ("heartbeats", beats)):
            if (emitted := self._flow.setting(f"emit.{what}.enabled", of)) is not None:
                yield Choice(f"emit_{what}", is_true(emitted.value.strip()), "", (emitted,))
        if interval is not None:
            seconds = float(interval.value)
            fitting = min(max(seconds, 0.1), _MOST_SYNC_S)
            remark = "" if fitting == seconds else f"{_MOST_SYNC_S:.0f} seconds at most, 0.1 at least"
            yield Choice("sync_groups_seconds", fitting, remark, (interval,))

    # -- the rest --------------------------------------------------------------------------------

    def _start(self) -> Iterator[Choice]:
        reset = self._flow.setting(OFFSET_RESET)
        if reset is None:
            return
        value = reset.value.strip().lower()
        if value == "latest":
            remark = (
                "for topics that exist at the first run; those that come later are copied from the beginning"
            )
            yield Choice("start", "latest", remark, (reset,), Verdict.DIFFERS)
        elif value == "none":
            remark = "none ends a task where records are no more: here the partition stops"
            yield Choice("on_loss", "stop", remark, (reset,))
        else:
            yield Choice("start", "earliest", "", (reset,))

    def _settings(self) -> Iterator[Choice]:
        flow = self._flow
        factor = flow.setting("replication.factor")
        if factor is not None:
            number = int(factor.value)
            if number >= 1:
                yield Choice("replication_factor", number, "", (factor,))
            else:
                yield Choice("replication_factor", -1, "the default of the target's brokers", (factor,))
        followed = flow.setting("sync.topic.configs.enabled")
        if followed is not None:
            if is_true(followed.value.strip()):
                yield Choice("configuration_follow", "incremental", "", (followed,))
            else:
                remark = "settings are copied when a topic is created, and do not follow"
                yield Choice("configuration_follow", "create", remark, (followed,))
        default = (re.escape(_NOT_FOLLOWED),)
        remark = "as MirrorMaker's default; throttles and times never follow"
        yield self._list("config.properties.exclude", "configuration_exclude", default, remark)
        rules = flow.setting("sync.topic.acls.enabled")
        if rules is not None:
            yield Choice("acls", "read" if is_true(rules.value.strip()) else "none", "", (rules,))

    def _work(self) -> Iterator[Choice]:
        flow = self._flow
        tasks, refresh = flow.setting("tasks.max"), flow.setting("refresh.topics.interval.seconds")
        if tasks is not None:
            number = min(max(int(tasks.value), 1), _MOST_TASKS)
            remark = "" if number == int(tasks.value) else f"from 1 to {_MOST_TASKS}"
            yield Choice("tasks", number, remark, (tasks,))
        if refresh is not None:
            seconds = float(refresh.value)
            if seconds > 0:
                yield Choice("topic_refresh_seconds", seconds, "", (refresh,))


# Notes --------------------------------------------------------------------------------------------


def _notes(made: MakerConfiguration) -> Iterator[tuple[str, Verdict, str]]:
    """What differs though the file says nothing of it, by the key that it would be."""
    used = [entry.key for entry in made.entries if entry not in made.ignored]
    written = {name for key in used for name in (key, *_tails(key))}
    yield (
        "isolation.level",
        Verdict.DIFFERS,
        "MirrorMaker reads uncommitted records by default: here those of aborted transactions are not copied, and "
        "those of open ones wait",
    )
    yield (
        "auto.offset.reset",
        Verdict.DIFFERS,
        "where the source has deleted records before they were copied MirrorMaker continues without a word; here the "
        'partition stops, or continues with on_loss = "continue", and the loss is recorded',
    )
    if not written & {"groups.exclude", "groups.blacklist"}:
        yield (
            "groups.exclude",
            Verdict.TAKEN,
            f"MirrorMaker leaves out groups by default, which is written out: {', '.join(GROUPS_EXCLUDE)}",
        )
    if not written & {"topics.exclude", "topics.blacklist"}:
        yield (
            "topics.exclude",
            Verdict.TAKEN,
            "MirrorMaker leaves out topics by default, which is written out: "
            f"{', '.join(_excluded_by_default(made.flows[0]))}. Before Kafka 4.0 it left out all names that end in "
            "-internal or .internal: --release says of which it is",
        )
    yield (
        "replication.policy.class",
        Verdict.DIFFERS,
        "topics of MirrorMaker itself (mm2-...internal, NAME.checkpoints.internal), its heartbeats, and names that "
        f"begin with {RESERVED[0].removesuffix('.*')} stay out; let_in brings them in. Names that begin with a dot, "
        "which MirrorMaker never mirrors, are mirrored",
    )
    if "sync.topic.acls.enabled" not in written:
        yield (
            "sync.topic.acls.enabled",
            Verdict.DIFFERS,
            'MirrorMaker copies rules of topics by default; here it is off unless you write acls = "read"',
        )
    if "sync.topic.configs.enabled" not in written:
        yield (
            "sync.topic.configs.enabled",
            Verdict.TAKEN,
            "changes of settings follow, as in MirrorMaker; max.message.bytes is never lowered",
        )
    if "replication.factor" not in written:
        yield (
            "replication.factor",
            Verdict.DIFFERS,
            "MirrorMaker creates topics with 2 replicas by default; here they have as many as at the source, at most "
            "one for each broker",
        )
    if "sync.group.offsets.enabled" not in written:
        yield (
            "sync.group.offsets.enabled",
            Verdict.TAKEN,
            "off in both; commits are recorded in the ledger, from where groups can be moved at any time",
        )
    for flow in made.flows:
        absent = [
            name
            for name in _NAMING
            if flow.setting(name) is not None and flow.setting(name, ConnectorKind.CHECKPOINT) is None
        ]
        if _has_other_names(flow) and absent:
            remark = f"{flow.name}: the checkpoint connector lacks {', '.join(absent)} and {_OTHER_NAMES}"
            yield (absent[0], Verdict.DIFFERS, remark)
    if not written & {"emit.checkpoints.enabled", "emit.heartbeats.enabled"}:
        yield (
            "emit.checkpoints.enabled",
            Verdict.DIFFERS,
            "MirrorMaker writes checkpoints and heartbeats at the target by default, for tools that read them: here "
            "emit_checkpoints = true and emit_heartbeats = true do",
        )
    yield (
        "(no key)",
        Verdict.NO_MEANING,
        "what MirrorMaker has no key for keeps its default here: rounds, policies of partitions, filters, objectives, "
        "applications. See conf/example.toml",
    )


def _tails(key: str) -> Iterator[str]:
    """A key without what stands in front of it, piece by piece."""
    rest = key
    while "." in rest:
        rest = rest.partition(".")[2]
        yield rest


# The whole ----------------------------------------------------------------------------------------


def translated(made: MakerConfiguration) -> Translation:
    """The whole configuration in this program's keys."""
    clusters = made.clusters.items()
    return Translation(
        tuple(TableChoices(name, tuple(cluster_choices(one, made.providers))) for name, one in clusters),
        tuple(TableChoices(flow.name, _Flow(flow, made).choices()) for flow in made.flows),
        tuple(_notes(made)),
    )


def key_rows(made: MakerConfiguration, translation: Translation, remarks: Sequence[str] = ()) -> list[KeyRow]:
    """A row for every key of the files, in their order, then one for each note; nothing that may be a secret."""
    by_entry: dict[Entry, list[tuple[str, Choice]]] = defaultdict(list)
    twins: dict[tuple[str, str], list[tuple[str, Choice]]] = {}
    in_flows = Counter(
        (entry, choice.key) for one in translation.flows for choice in one.choices for entry in choice.entries
    )
    tables = [("clusters", one) for one in translation.clusters]
    tables += [("flows", one) for one in translation.flows]
    for table, one in tables:
        for choice in one.choices:
            for entry in choice.entries:
                # What is said for all flows alike is said once.
                is_alike = 1 < len(translation.flows) == in_flows[entry, choice.key]
                path = f"{table}.{'*' if is_alike and table == 'flows' else one.name}.{choice.key}"
                by_entry[entry].append((path, choice))
                # Connectors repeat each other: what one says in the same words is taken as the other's.
                twins[entry.key, entry.value] = by_entry[entry]
    rows = [KeyRow("file", "", None, Verdict.DIFFERS, None, remark) for remark in remarks]
    for entry in made.entries:
        choices = by_entry.get(entry, [])
        if not choices and not made.is_dedicated:
            choices = twins.get((entry.key, entry.value), [])
        rows.append(_row(entry, choices, made.ignored.get(entry)))
    rows += [
        KeyRow(
            entry.where,
            entry.key,
            HIDDEN,
            Verdict.NO_MEANING,
            None,
            "it is about how MirrorMaker is deployed",
        )
        for entry in made.deployment
    ]
    for key, verdict, remark in translation.notes:
        rows.append(KeyRow("default", key, None, verdict, None, remark))
    return rows


def _row(entry: Entry, choices: Sequence[tuple[str, Choice]], ignored: str | None) -> KeyRow:
    name = _name_of(entry.key)
    key, value = shown_key(entry.key), shown_value(name, entry.value)
    if ignored is not None:
        return KeyRow(entry.where, key, value, Verdict.IGNORED, None, ignored)
    if choices:
        verdict = max((choice.verdict for _, choice in choices), key=_GRAVITY.index)
        taken = dict.fromkeys(path for path, choice in choices if choice.value is not None)
        remarks = dict.fromkeys(choice.remark for _, choice in choices if choice.remark)
        return KeyRow(entry.where, key, value, verdict, ", ".join(taken) or None, "; ".join(remarks) or None)
    meaning = meaning_of(name)
    if meaning is None:
        return KeyRow(entry.where, key, value, Verdict.IGNORED, None, "nobody has such a key")
    if name == "clusters" and len(parts_of(entry.value)) < entry.value.count(",") + 1:
        remark = (
            "MirrorMaker takes what is between two commas, or behind the last, for a cluster without a name, and ends "
            "when it starts; here it is left out"
        )
        return KeyRow(entry.where, key, value, Verdict.DIFFERS, None, remark)
    if meaning.verdict is not Verdict.TAKEN or name == "clusters":
        return KeyRow(entry.where, key, value, meaning.verdict, None, meaning.remark)
    if name in CONNECTOR_KEYS:
        remark = "another key counts in its place, or it is of another connector than the one that reads it"
        return KeyRow(entry.where, key, value, Verdict.IGNORED, None, remark)
    remark = "one login of a cluster does for all here, and another key of the file says it"
    return KeyRow(entry.where, key, value, Verdict.DIFFERS, None, remark)


_GRAVITY = (Verdict.IGNORED, Verdict.NO_MEANING, Verdict.TAKEN, Verdict.DIFFERS, Verdict.NOT_YET)


def _name_of(key: str) -> str:
    """The longest end of a key that is one, else the key."""
    if meaning_of(key) is not None:
        return key
    return next((tail for tail in _tails(key.rpartition("->")[2]) if meaning_of(tail) is not None), key)
