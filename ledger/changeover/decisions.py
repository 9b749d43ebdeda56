"""What people decide about records that one side of a pair has alone, in the words that they type."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.errors import UsageError
from ledger.facts.deficits import DeficitsPolicy
from ledger.facts.extras import RECREATING, ExtrasPolicy

POLICIES: Mapping[str, ExtrasPolicy] = {
    "keep": ExtrasPolicy.KEEP_LOCAL,
    "salvage": ExtrasPolicy.SALVAGE,
    "replicate": ExtrasPolicy.REPLICATE,
    "recreate": ExtrasPolicy.RECREATE,
    "salvage-recreate": ExtrasPolicy.SALVAGE_RECREATE,
}
"""What people may decide about extras, by the word that they type."""

EXTRAS_OF_KEYS = (
    "the topic is compacted, or may be, so its extras are not replicated: a copy would replace what applications write "
    "of its key meanwhile"
)
DEFICITS_OF_KEYS = (
    "the topic is compacted, or may be, so its deficits do not return: a copy would replace what was written since of "
    "its key"
)


@dataclass(frozen=True, slots=True)
class Decisions:
    """`extras`, `deficits`: by topic what becomes of those, by the empty name of those of all others.

    `compacted`: topics where nothing is put behind what applications have written of a key: there `replicate` and
    `return` decide nothing.
    """

    extras: Mapping[str, ExtrasPolicy]
    deficits: Mapping[str, DeficitsPolicy]
    compacted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, extras: Sequence[str], deficits: Sequence[str], *, undone: str) -> "Decisions":
        """From `[TOPIC=]POLICY` each.

        Raises `UsageError` for another word, with what was not done.
        """
        policies: dict[str, ExtrasPolicy] = {}
        for text in extras:
            topic, _, word = text.rpartition("=")
            if word not in POLICIES:
                raise UsageError(
                    f"--extras takes [TOPIC=]POLICY, got {text!r}; policies: {', '.join(POLICIES)}; {undone}"
                )
            policies[topic] = POLICIES[word]
        of_deficits: dict[str, DeficitsPolicy] = {}
        for text in deficits:
            topic, _, word = text.rpartition("=")
            if word not in [*DeficitsPolicy]:
                raise UsageError(
                    f"--deficits takes [TOPIC=]POLICY, got {text!r}; policies: {', '.join(DeficitsPolicy)}; {undone}"
                )
            of_deficits[topic] = DeficitsPolicy(word)
        return cls(policies, of_deficits)

    def of_compacted(self, topics: frozenset[str]) -> "Decisions":
        """The same, where these topics are compacted."""
        return replace(self, compacted=topics)

    def require_about(self, topics: Collection[str], cluster: str, *, undone: str) -> None:
        """Raise `UsageError` where a topic is named that does not come back to a cluster, with what was not done."""
        for option, named in (("extras", self.extras.keys()), ("deficits", self.deficits.keys())):
            if strange := sorted(set(named) - {"", *topics}):
                raise UsageError(
                    f"--{option} {', '.join(strange)}: nothing of it is mirrored back to {cluster}; {undone}"
                )

    def policy(self, topic: str) -> ExtrasPolicy | None:
        """What becomes of extras of a topic; None: nobody has said, or it may not become of them."""
        found = self.extras.get(topic, self.extras.get(""))
        return None if found is ExtrasPolicy.REPLICATE and topic in self.compacted else found

    def of_deficits(self, topic: str) -> DeficitsPolicy | None:
        """What becomes of deficits of a topic; None: as of extras."""
        found = self.deficits.get(topic, self.deficits.get(""))
        return None if found is DeficitsPolicy.RETURN and topic in self.compacted else found

    def to_recreate(self, topics: Collection[str], with_extras: Collection[str]) -> frozenset[str]:
        """Topics that are deleted: who is named, and where it was said of all others, of these who has extras."""
        return frozenset(
            topic
            for topic in topics
            if self.extras.get(topic, self.extras.get("") if topic in with_extras else None) in RECREATING
        )
