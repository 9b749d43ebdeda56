"""The list of mutants: what is changed in the code, one at a time, and which tests notice.

`mutants.toml` beside this module is the list. A mutant is worth an entry when it once survived, when it stands for
a rule that has a name (P1 to P6, L1 to L6), or when only one test stands between it and us.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).with_name("mutants.toml")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module; each of `tests` (node ids) has to notice it, and one of the first seeds."""

    name: str
    module: str
    text: str
    instead: str
    tests: tuple[str, ...] = ()
    first_seeds: int = 0

    def applied_to(self, source: str) -> str:
        """The module's text with the change; `AssertionError` when the place is not there exactly once."""
        assert source.count(self.text) == 1, (
            f"{self.name}: its text occurs {source.count(self.text)} times in {self.module}"
        )
        return source.replace(self.text, self.instead)

    @property
    def killers(self) -> "tuple[Killer, ...]":
        """Each of them has to notice."""
        told = tuple(Killer(test=test) for test in self.tests)
        return (*told, Killer(first_seeds=self.first_seeds)) if self.first_seeds else told


@dataclass(frozen=True, slots=True)
class Killer:
    """A test, or lives of the simulation, at least one of which goes wrong."""

    test: str = ""
    first_seeds: int = 0

    def __str__(self) -> str:
        return self.test or f"a seed of the first {self.first_seeds}"


def mutants() -> tuple[Mutant, ...]:
    """All of them, in the order of the file."""
    told = tomllib.loads(_FILE.read_text(encoding="utf-8"))["mutant"]
    return tuple(
        Mutant(
            name=entry["name"],
            module=entry["module"],
            text=entry["text"],
            instead=entry["instead"],
            tests=tuple(entry.get("tests", ())),
            first_seeds=entry.get("first_seeds", 0),
        )
        for entry in told
    )
