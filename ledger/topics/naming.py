"""Names of topics, which of them a flow selects and how they are called at the target; which records it leaves out."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from ledger.errors import InvalidValueError
from ledger.words import counted, some_of

# Naming -------------------------------------------------------------------------------------------
# Names of topics: which a flow selects, and how they are called at the target.


class NamingKind(StrEnum):
    """How a target topic is called."""

    IDENTITY = "identity"  # as at the source
    PREFIX = "prefix"  # `{prefix}.{topic}`
    RENAME = "rename"  # by the first rule that matches; a topic that none matches is not selected


@dataclass(frozen=True, slots=True)
class RenameRule:
    """`match`, a regular expression for the whole source name, and `to`, the target name with its groups."""

    match: str
    to: str

    def __post_init__(self) -> None:
        try:
            re.compile(self.match).sub(self.to, "")  # checks group references, whether it matches or not
        except (re.error, IndexError) as error:
            raise InvalidValueError(f"{self.match!r} cannot be renamed to {self.to!r}: {error}") from error

    def target_name(self, topic: str) -> str | None:
        matched = re.fullmatch(self.match, topic, re.DOTALL)
        return None if matched is None else matched.expand(self.to)

    def source_name(self, target: str) -> str | None:
        """The source name behind `target`, for rules of plain text and groups that `to` names all."""
        parts = _parts(self.match)
        template = parts and _reversed_template(self.to, parts)
        matched = template and re.fullmatch(template, target)
        if not parts or not matched:
            return None
        texts = (matched[f"g{part.group}"] if part.group else part.text for part in parts)
        source = "".join(texts)
        return source if self.target_name(source) == target else None


@dataclass(frozen=True, slots=True)
class _Part:
    """Plain text of a rule, or what its group of that number matches."""

    text: str
    group: int = 0


_GROUP = re.compile(r"\((?!\?)([^()]*)\)")
_PLAIN = re.compile(r"(?:[A-Za-z0-9_-]|\\[.])*")
_REFERENCE = re.compile(r"\\(\d)|\\g<(\d+)>")


def _parts(match: str) -> list[_Part] | None:
    """A rule cut into text and groups; None when it holds anything else."""
    pieces = _GROUP.split(match.removeprefix("^").removesuffix("$"))
    if not all(_PLAIN.fullmatch(text) for text in pieces[::2]):
        return None
    return [
        _Part(piece, (place + 1) // 2) if place % 2 else _Part(piece.replace("\\.", "."))
        for place, piece in enumerate(pieces)
    ]


def _reversed_template(to: str, parts: Sequence[_Part]) -> str | None:
    """A regular expression for target names with the groups of the rule; None when one is not in `to`."""
    groups = {part.group: part.text for part in parts if part.group}
    pieces = _REFERENCE.split(to)
    made, seen = re.escape(pieces[0]), set[int]()
    for short, long, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        number = int(short or long)
        made += f"(?P=g{number})" if number in seen else f"(?P<g{number}>{groups[number]})"
        made += re.escape(text)
        seen.add(number)
    return made if seen == groups.keys() else None


@dataclass(frozen=True, slots=True)
class TopicNaming:
    """Source topic to target topic and back."""

    kind: NamingKind
    prefix: str = ""
    rules: tuple[RenameRule, ...] = ()

    def __post_init__(self) -> None:
        if (self.kind is NamingKind.PREFIX) != bool(self.prefix):
            raise InvalidValueError(f"a prefix belongs to prefix naming, got {self.kind} and {self.prefix!r}")
        if (self.kind is NamingKind.RENAME) != bool(self.rules):
            raise InvalidValueError(f"rules belong to rename naming, got {self.kind} and {len(self.rules)}")

    def names(self, topic: str) -> bool:
        """Whether a topic of this name has a target name."""
        return self.kind is not NamingKind.RENAME or self._renamed(topic) is not None

    def target_name(self, topic: str) -> str:
        if self.kind is NamingKind.PREFIX:
            return f"{self.prefix}.{topic}"
        renamed = topic if self.kind is NamingKind.IDENTITY else self._renamed(topic)
        if renamed is None:
            raise InvalidValueError(f"no rename rule matches {topic!r}; it has no target name")
        return renamed

    def source_name(self, target: str) -> str | None:
        """The source topic of a target topic; None when this naming cannot have made the name, or cannot tell."""
        if self.kind is NamingKind.IDENTITY:
            return target
        if self.kind is NamingKind.RENAME:
            return self._renamed_back(target)
        name = target.removeprefix(f"{self.prefix}.")
        return name if name and name != target else None

    def _renamed(self, topic: str) -> str | None:
        names = (rule.target_name(topic) for rule in self.rules)
        return next((name for name in names if name is not None), None)

    def _renamed_back(self, target: str) -> str | None:
        """A later rule counts only if no earlier one takes the name that it leads back to."""
        for rule in self.rules:
            source = rule.source_name(target)
            if source is not None and self._renamed(source) == target:
                return source
        return None


@dataclass(frozen=True, slots=True)
class NamePatterns:
    """Regular expressions that match whole names: one of `include` and none of `exclude`."""

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def matches(self, name: str) -> bool:
        return matches_any(self.include, name) and not matches_any(self.exclude, name)


KAFKAS_OWN = frozenset(
    {
        *("__consumer_offsets", "__transaction_state", "__share_group_state"),
        *("__cluster_metadata", "__remote_log_metadata"),
    }
)
"""Topics that belong to the brokers, whether they say so or not; no key lets them in."""
CHECKPOINTS = r".+\.checkpoints\.internal"
"""Where MirrorMaker 2 writes which commits of groups it has translated to which."""
MIRROR_MAKERS_OWN = (r"mm2-(offset-syncs|configs|offsets|status)[._-].+[._-]internal", CHECKPOINTS)
"""What MirrorMaker 2 keeps for itself: names that nothing else has."""
HEARTBEATS = (r"(.+\.)?heartbeats",)
"""What it writes to show that it is alive, and copies further; applications may have such a name, too."""
RESERVED = ("__.*",)
"""What tools call topics of theirs."""


SALVAGED = ".salvaged"
"""Behind the name of a topic: records of it that one side alone had. Behind that of a flow: what copied them there."""


DEAD_LETTERS = ".dead-letters"
"""Behind the name of a flow: what puts records aside that its target refuses."""
INTERNAL_FLOWS = (SALVAGED, DEAD_LETTERS)
"""Behind names of flows that nobody configures: what one has copied once is behind nothing, and waits for nobody."""
TOPIC_PLACE = "{topic}"
"""In the name of a flow's dead letter topics: where the name of the target topic stands."""


class SelectionRefusal(StrEnum):
    """Why a topic is not selected. The first that applies, in this order, is reported."""

    INTERNAL = "internal"  # the brokers' own
    SALVAGED = "salvaged"  # holds records that were salvaged of a topic that is selected
    NOT_INCLUDED = "not_included"  # matches none of the patterns
    EXCLUDED = "excluded"  # matches a pattern that excludes
    MIRROR_MAKERS = "mirror_makers"  # has a name of MirrorMaker 2's own topics
    RESERVED = "reserved"  # begins with two underscores, as topics of tools do
    MIRRORED_BACK = "mirrored_back"  # carries a prefix that marks it as a copy from the target
    NOT_NAMED = "not_named"  # no rename rule matches


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The topics of a flow; `mirrored_prefixes` mark copies that came from the target.

    Names as bookkeeping and copies have them are left out, unless `let_in` matches them too or a pattern spells
    the name out.
    """

    patterns: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    mirrored_prefixes: tuple[str, ...] = ()
    naming: TopicNaming = TopicNaming(NamingKind.IDENTITY)
    let_in: tuple[str, ...] = ()

    def refusal(self, topic: str, *, internal: bool = False) -> SelectionRefusal | None:
        """Why `topic` is not selected; None when it is. `internal` is the broker's own verdict."""
        if internal or topic in KAFKAS_OWN:
            return SelectionRefusal.INTERNAL
        if topic.endswith(SALVAGED) and self.selects(topic.removesuffix(SALVAGED)):
            return SelectionRefusal.SALVAGED
        if not matches_any(self.patterns, topic):
            return SelectionRefusal.NOT_INCLUDED
        if matches_any(self.exclude, topic):
            return SelectionRefusal.EXCLUDED
        guess = self._suspected(topic)
        if guess is not None and not self._is_let_in(topic):
            return guess
        return None if self.naming.names(topic) else SelectionRefusal.NOT_NAMED

    def _suspected(self, topic: str) -> SelectionRefusal | None:
        """What the name alone makes of it."""
        if matches_any(MIRROR_MAKERS_OWN, topic) or matches_any(HEARTBEATS, topic):
            return SelectionRefusal.MIRROR_MAKERS
        if matches_any(RESERVED, topic):
            return SelectionRefusal.RESERVED
        return None if self._origin(topic) is None else SelectionRefusal.MIRRORED_BACK

    def _is_let_in(self, topic: str) -> bool:
        return matches_any(self.let_in, topic) or any(plain_name(one) == topic for one in self.patterns)

    def _origin(self, topic: str) -> str | None:
        """What it would be a copy of, by its name; None: it has no prefix that marks copies."""
        marks = (f"{prefix}." for prefix in self.mirrored_prefixes)
        return next((topic.removeprefix(mark) for mark in marks if topic.startswith(mark)), None)

    def left_out(self, refusals: "Refusals", copied: Collection[str]) -> dict[SelectionRefusal, list[str]]:
        """Topics that the patterns select, and that are left out for their names with nothing else to show for it.

        MirrorMaker's own names need no more than themselves; heartbeats are its where there are others of its topics,
        and a topic is a copy from the target where that has its origin. `copied`: names of topics of the target, and
        of topics at the source that flows are known to write.
        """
        is_maker_here = any(matches_any(MIRROR_MAKERS_OWN, name) for name in refusals)
        found: dict[SelectionRefusal, list[str]] = {}
        for name, why in sorted(refusals.items()):
            is_guess = {
                SelectionRefusal.RESERVED: True,
                SelectionRefusal.MIRROR_MAKERS: not is_maker_here,
                SelectionRefusal.MIRRORED_BACK: name not in copied and self._origin(name) not in copied,
            }
            if why is not None and is_guess.get(why, False):
                found.setdefault(why, []).append(name)
        return found

    def refusals(self, topics: Mapping[str, bool]) -> dict[str, SelectionRefusal | None]:
        """By topic, from the broker's own verdict on whether it is internal."""
        return {name: self.refusal(name, internal=internal) for name, internal in topics.items()}

    def selects(self, topic: str, *, internal: bool = False) -> bool:
        return self.refusal(topic, internal=internal) is None

    def target_name(self, topic: str) -> str | None:
        """What a source topic is called at the target; None: it is not selected."""
        return self.naming.target_name(topic) if self.selects(topic) else None


_PLAIN_NAME = re.compile(r"(?:[A-Za-z0-9_-]|\\\.)+")


@lru_cache
def plain_name(pattern: str) -> str | None:
    """The one name that a regular expression spells out; None when it is more than a name."""
    return pattern.replace("\\.", ".") if _PLAIN_NAME.fullmatch(pattern) else None


def matches_any(patterns: Sequence[str], name: str) -> bool:
    """Whether one matches the whole name: any character may be in the name of a group, a line feed too."""
    return any(re.fullmatch(pattern, name, re.DOTALL) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class TakenTopics:
    """What a flow makes of the topics that its source has.

    `refusals`: by topic why it is not selected, None where it is. `own_copies`: selected ones that the flow itself
    makes of others. `conflicts`: of the rest, why some cannot be mirrored under the names that they would get.
    """

    refusals: Mapping[str, SelectionRefusal | None]
    own_copies: frozenset[str]
    conflicts: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """What is to be mirrored, in order; topics with conflicts among them."""
        selected = [name for name, refusal in sorted(self.refusals.items()) if refusal is None]
        return [name for name in selected if name not in self.own_copies]


def taken_topics(
    selection: TopicSelection, naming: TopicNaming, topics: Mapping[str, bool], *, same_cluster: bool
) -> TakenTopics:
    """`topics`: all of the source, with the broker's own verdict on whether they are internal.

    `same_cluster`: source and target are one, by whatever aliases.
    """
    refusals = selection.refusals(topics)
    selected = [name for name, refusal in refusals.items() if refusal is None]
    own_copies = own_targets(naming, selected) if same_cluster else frozenset[str]()
    rest = [name for name in selected if name not in own_copies]
    return TakenTopics(refusals, own_copies, name_conflicts(naming, rest, same_cluster=same_cluster))


# Target names ----------------------------------------------------------------------------------

_MAX_LENGTH = 249
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]+")


def name_conflicts(naming: TopicNaming, topics: Iterable[str], *, same_cluster: bool) -> dict[str, str]:
    """Why topics cannot be mirrored under the names that they would get, by source topic.

    A flow never maps two source partitions to one target partition, and never a topic onto itself.
    """
    by_target: dict[str, list[str]] = {}
    for topic in sorted(topics):
        by_target.setdefault(naming.target_name(topic), []).append(topic)
    return {
        topic: reason
        for target, sources in by_target.items()
        for topic in sources
        if (reason := _name_conflict(target, topic, sources, same_cluster=same_cluster)) is not None
    }


def _name_conflict(target: str, topic: str, sources: Sequence[str], *, same_cluster: bool) -> str | None:
    if not _TOPIC_NAME.fullmatch(target) or target in (".", "..") or len(target) > _MAX_LENGTH:
        return (
            f"{topic} would be called {target!r} at the target: a topic name has 1 to {_MAX_LENGTH} "
            "letters, digits, dots, underscores and hyphens"
        )
    if same_cluster and target == topic:
        return f"{topic} would be copied onto itself"
    if len(sources) > 1:
        return f"{' and '.join(sources)} would all be copied to {target}"
    return None


def own_targets(naming: TopicNaming, topics: Iterable[str]) -> frozenset[str]:
    """Those of `topics` that are the target of another one: on one cluster a flow would copy its copies."""
    names = frozenset(topics)
    targets = {naming.target_name(topic) for topic in names if naming.target_name(topic) != topic}
    return names & targets


# Idle patterns ------------------------------------------------------------------------------------
# Patterns of a flow that do nothing: no topic matches them, or only such topics as the flow leaves out all
# the same.
#
# A misspelt name beside a right one is one of these. Pure: takes the names of topics with what became of
# each.


Refusals = Mapping[str, SelectionRefusal | None]
"""By topic that there is: why the flow does not select it; None: it does."""

_WHY = {
    SelectionRefusal.INTERNAL: "{} is internal",
    SelectionRefusal.SALVAGED: "{} holds what was salvaged",
    SelectionRefusal.NOT_INCLUDED: "topics does not have {}",
    SelectionRefusal.EXCLUDED: "{} is excluded",
    SelectionRefusal.MIRROR_MAKERS: "{} has a name of MirrorMaker's own topics",
    SelectionRefusal.RESERVED: "{} begins as names of tools' topics do",
    SelectionRefusal.MIRRORED_BACK: "{} has the name of a copy from the target",
    SelectionRefusal.NOT_NAMED: "no rename rule matches {}",
}


class PatternKey(StrEnum):
    """Which key of a flow's configuration a pattern stands in."""

    TOPICS = "topics"
    EXCLUDE = "exclude"
    RENAME = "rename"


@dataclass(frozen=True, slots=True)
class IdlePattern:
    """A pattern that does nothing. `left_out`: by reason the first topic that matches and is left out for it."""

    key: PatternKey
    pattern: str
    left_out: tuple[tuple[SelectionRefusal, str], ...] = ()

    @property
    def is_guard(self) -> bool:
        """Whether it may be meant for what is to come: an expression that excludes."""
        return self.key is PatternKey.EXCLUDE and plain_name(self.pattern) is None

    def described(self, cluster: str) -> str:
        """A sentence about the pattern and the cluster that it was compared with."""
        if not self.left_out:
            return f"{self.key} has '{self.pattern}': no topic of {cluster} that this principal is shown matches it"
        reasons = ", ".join(_WHY[reason].format(topic) for reason, topic in self.left_out)
        return (
            f"{self.key} has '{self.pattern}': nothing of {cluster} is mirrored because of it, for {reasons}"
        )


def idle_patterns(selection: TopicSelection, refusals: Refusals) -> Iterator[IdlePattern]:
    """Each once, in the order of the configuration.

    A pattern of `topics` or a rename rule is at work when it matches a selected topic, a pattern of `exclude` when it
    matches any. While nothing is selected rename rules have nothing to name, and nothing is said of them.
    """
    selected = [topic for topic, refusal in refusals.items() if refusal is None]
    for pattern in dict.fromkeys(selection.patterns):
        if not _matches_any_of(pattern, selected):
            yield IdlePattern(PatternKey.TOPICS, pattern, _left_out(pattern, refusals))
    for pattern in dict.fromkeys(selection.exclude):
        if not _matches_any_of(pattern, refusals):
            yield IdlePattern(PatternKey.EXCLUDE, pattern)
    for rule in selection.naming.rules if selected else ():
        if not _matches_any_of(rule.match, selected):
            yield IdlePattern(PatternKey.RENAME, rule.match, _left_out(rule.match, refusals))


_NAMED_AT_MOST = 10
_OF_NAMES = {
    SelectionRefusal.MIRROR_MAKERS: "with names of MirrorMaker's topics, though it has no others here",
    SelectionRefusal.RESERVED: "that begin as names of tools' topics do",
    SelectionRefusal.MIRRORED_BACK: "with names of copies from the target, which has no such topic",
}


def left_out_in_words(left_out: Mapping[SelectionRefusal, Sequence[str]]) -> str:
    """By reason how many topics, and the names of the first."""
    return "; ".join(
        f"{counted(len(names), 'topic')} {_OF_NAMES[why]}: {some_of(names, 'topic', at_most=_NAMED_AT_MOST)}"
        for why, names in left_out.items()
    )


def _matches_any_of(pattern: str, topics: Iterable[str]) -> bool:
    return any(matches_any([pattern], topic) for topic in topics)


def _left_out(pattern: str, refusals: Refusals) -> tuple[tuple[SelectionRefusal, str], ...]:
    first: dict[SelectionRefusal, str] = {}
    for topic, refusal in sorted(refusals.items()):
        if refusal is not None and matches_any([pattern], topic):
            first.setdefault(refusal, topic)
    return tuple(sorted(first.items(), key=lambda reason: list(SelectionRefusal).index(reason[0])))


# Filters ------------------------------------------------------------------------------------------
# Which records a flow leaves out, by key, header or time. Pure: a record's fields in, a verdict out.
#
# Patterns are regular expressions that match a whole key or a whole header value, read as UTF-8 text. A key
# or value that is absent, or that is not UTF-8, matches no pattern: `exclude_keys` does not leave it out,
# and `include_keys` does not take it in.


Header = tuple[bytes, bytes | None]
"""Name and value of a header, as they are in the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """A record is kept when every rule given keeps it; the default keeps all.

    `include_keys`: only records whose key matches one of them. `exclude_keys`: none whose key matches one.
    `exclude_headers`: name and pattern; none that has a header of that name whose value matches.
    `from_ms`, `until_ms`: only timestamps in `[from_ms, until_ms)`, as readers of the source see them; a
    record without one has -1.
    """

    include_keys: tuple[str, ...] = ()
    exclude_keys: tuple[str, ...] = ()
    exclude_headers: tuple[tuple[str, str], ...] = ()
    from_ms: int | None = None
    until_ms: int | None = None

    @property
    def keeps_all(self) -> bool:
        """Whether no record has to be read."""
        return self == KEEP_ALL

    @property
    def reads_keys(self) -> bool:
        return bool(self.include_keys or self.exclude_keys)

    def keeps_time(self, timestamp_ms: int) -> bool:
        is_early = self.from_ms is not None and timestamp_ms < self.from_ms
        is_late = self.until_ms is not None and timestamp_ms >= self.until_ms
        return not is_early and not is_late

    def keeps_key(self, key: bytes | None) -> bool:
        text = _text(key)
        if text is None:
            return not self.include_keys
        for pattern in self.exclude_keys:
            if _compiled(pattern).fullmatch(text):
                return False
        return not self.include_keys or any(_compiled(one).fullmatch(text) for one in self.include_keys)

    def may_leave_out(self, content: bytes) -> bool:
        """Whether a record with this in it may have a header of such a name: else nobody has to read them."""
        return bool(self.exclude_headers) and any(
            name.encode() in content for name, _ in self.exclude_headers
        )

    def keeps_headers(self, headers: Sequence[Header]) -> bool:
        return not any(
            name == excluded.encode()
            and (text := _text(value)) is not None
            and _compiled(pattern).fullmatch(text)
            for excluded, pattern in self.exclude_headers
            for name, value in headers
        )


KEEP_ALL = RecordFilter()


def _text(content: bytes | None) -> str | None:
    """None: there is none that a pattern could match."""
    try:
        return None if content is None else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Of the filters of flows: asked for each record."""
    return re.compile(pattern, re.DOTALL)


# Tail policy --------------------------------------------------------------------------------------
# What a flow does about its own unrecorded records at a target of which nothing can be proved any more.


class TailPolicy(StrEnum):
    """It is recorded either way."""

    STOP = "stop"  # stop the partition until an operator decides
    COPY_AGAIN = "copy_again"  # copy the source again from the recorded position, behind them

    @classmethod
    def of(cls, given: "TailPolicy | None", cleanup_policy: str | None) -> "TailPolicy":
        """The policy given, else by the source topic's cleanup.policy; None: it is not known.

        Where a cleaner keeps the last record of each key and removes nothing else, records that are there twice, in
        order, come to the same.
        """
        if given is not None:
            return given
        return cls.COPY_AGAIN if cleanup_policy == "compact" else cls.STOP
