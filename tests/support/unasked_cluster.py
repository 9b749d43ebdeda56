"""A cluster that nobody is to ask anything, and one that is asked one by one: what fakes answer is up to them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ledger.facts.groups import CommitRefusal, NewCommit

# -- Many at once as each by itself ----------------------------------------------------------------


class OneByOne(ABC):
    """Base of stand-ins for `ClusterAdmin`."""

    @abstractmethod
    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        """Of one group."""

    @abstractmethod
    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None:
        """Of one topic."""

    def set_commits_of_groups(
        self, commits: Mapping[str, Sequence[NewCommit]]
    ) -> dict[str, dict[tuple[str, int], CommitRefusal]]:
        return {group: self.set_commits(group, of_group) for group, of_group in commits.items()}

    def change_settings_of(self, changes: Mapping[str, Mapping[str, str | None]]) -> None:
        for name, settings in changes.items():
            to_set = {setting: value for setting, value in settings.items() if value is not None}
            self.change_settings(name, to_set=to_set, to_remove=[*(settings.keys() - to_set.keys())])


# -- Nothing at all --------------------------------------------------------------------------------

_OfAnyKind: Any = object

if TYPE_CHECKING:
    # What a subclass answers has the signature that it has there; at run time nothing is to be answered by these.
    from ledger.kafka.cluster import ShutOutCluster as _Asked
else:

    class _Asked:
        """Nothing."""


class UnaskedCluster(OneByOne, _Asked, _OfAnyKind):  # type: ignore[misc]  # it may be made without any answer
    """Stands in for `ClusterAdmin`: what a subclass does not answer fails the test."""

    alias: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AssertionError(f"{type(self).__name__} is not to be asked for {name}")

    def brokers(self) -> Sequence[str]:
        return [f"PLAINTEXT://{self.alias}-1:9092"]

    def set_commits(self, group: str, commits: Sequence[NewCommit]) -> dict[tuple[str, int], CommitRefusal]:
        raise AssertionError(f"{type(self).__name__} is not to set {commits} of {group}")

    def change_settings(self, name: str, *, to_set: Mapping[str, str], to_remove: Sequence[str]) -> None:
        raise AssertionError(f"{type(self).__name__} is not to change {name}: {to_set}, {to_remove}")


if TYPE_CHECKING:

    class _Drifted(UnaskedCluster):
        """Were a signature that differs not noticed, mypy would notice the comment that nobody needs."""

        def broker_count(self, alias: str) -> int:  # type: ignore[override]
            return len(alias)
