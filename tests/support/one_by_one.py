"""What clusters of tests are asked for many at once: each is done by itself, so who changes that changes all of it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from ledger.facts.groups import CommitRefusal, NewCommit


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
