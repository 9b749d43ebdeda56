"""Names of topics: which a flow selects, and how they are called at the target."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger.errors import InvalidValueError


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
        matched = re.fullmatch(self.match, topic)
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


INTERNAL_TOPICS = ("__.*", ".*[-.]internal", "mm2-.*")
"""Topics that belong to a cluster and its tools: Kafka's own, Connect's and MirrorMaker's."""


class SelectionRefusal(StrEnum):
    """Why a topic is not selected. The first that applies, in this order, is reported."""

    INTERNAL = "internal"  # Kafka's own, or a tool's bookkeeping
    MIRRORED_BACK = "mirrored_back"  # carries a prefix that marks it as a copy from the target
    NOT_INCLUDED = "not_included"  # matches none of the patterns
    EXCLUDED = "excluded"  # matches a pattern that excludes
    NOT_NAMED = "not_named"  # no rename rule matches


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The topics of a flow; `mirrored_prefixes` mark copies that came from the target."""

    patterns: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    mirrored_prefixes: tuple[str, ...] = ()
    naming: TopicNaming = TopicNaming(NamingKind.IDENTITY)

    def refusal(self, topic: str, *, internal: bool = False) -> SelectionRefusal | None:
        """Why `topic` is not selected; None when it is. `internal` is the broker's own verdict."""
        if internal or matches_any(INTERNAL_TOPICS, topic):
            return SelectionRefusal.INTERNAL
        if any(topic.startswith(f"{prefix}.") for prefix in self.mirrored_prefixes):
            return SelectionRefusal.MIRRORED_BACK
        if not matches_any(self.patterns, topic):
            return SelectionRefusal.NOT_INCLUDED
        if matches_any(self.exclude, topic):
            return SelectionRefusal.EXCLUDED
        return None if self.naming.names(topic) else SelectionRefusal.NOT_NAMED

    def refusals(self, topics: Mapping[str, bool]) -> dict[str, SelectionRefusal | None]:
        """By topic, from the broker's own verdict on whether it is internal."""
        return {name: self.refusal(name, internal=internal) for name, internal in topics.items()}

    def selects(self, topic: str, *, internal: bool = False) -> bool:
        return self.refusal(topic, internal=internal) is None


_PLAIN_NAME = re.compile(r"(?:[A-Za-z0-9_-]|\\\.)+")


def plain_name(pattern: str) -> str | None:
    """The one name that a regular expression spells out; None when it is more than a name."""
    return pattern.replace("\\.", ".") if _PLAIN_NAME.fullmatch(pattern) else None


def matches_any(patterns: Sequence[str], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


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
