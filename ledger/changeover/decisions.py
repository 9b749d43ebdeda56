"""What people decide about records that one side of a pair has alone, in the words that they type."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Decisions:
    """`extras`: by topic what becomes of those; `of_others`: of those of all other topics, None: nobody has said.

    `returned`: topics of which deficits come back; None: all.
    """

    extras: Mapping[str, ExtrasPolicy]
    of_others: ExtrasPolicy | None
    returned: frozenset[str] | None

    @classmethod
    def of(cls, extras: Sequence[str], deficits: Sequence[str], *, undone: str) -> "Decisions":
        """From `[TOPIC=]POLICY`, and `[TOPIC=]return`, each.

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
        returned = set[str]()
        for text in deficits:
            topic, _, word = text.rpartition("=")
            if word != DeficitsPolicy.RETURN:
                raise UsageError(f"--deficits takes [TOPIC=]return, got {text!r}; {undone}")
            returned.add(topic)
        of_others = policies.pop("", None)
        return cls(policies, of_others, None if "" in returned else frozenset(returned))

    def require_about(self, topics: Collection[str], cluster: str, *, undone: str) -> None:
        """Raise `UsageError` where a topic is named that does not come back to a cluster, with what was not done."""
        for option, named in (("extras", self.extras.keys()), ("deficits", self.returned or ())):
            if strange := sorted(set(named) - set(topics)):
                raise UsageError(
                    f"--{option} {', '.join(strange)}: nothing of it is mirrored back to {cluster}; {undone}"
                )

    def policy(self, topic: str) -> ExtrasPolicy | None:
        """What becomes of extras of a topic; None: nobody has said."""
        return self.extras.get(topic, self.of_others)

    def not_returned(self, lacking: Collection[str]) -> frozenset[str]:
        """Of topics with deficits those of which nobody has said that they come back."""
        return frozenset() if self.returned is None else frozenset(lacking) - self.returned

    def to_recreate(self, topics: Collection[str], with_extras: Collection[str]) -> frozenset[str]:
        """Topics that are deleted: who is named, and where it was said of all others, of these who has extras."""
        return frozenset(
            topic
            for topic in topics
            if self.extras.get(topic, self.of_others if topic in with_extras else None) in RECREATING
        )
