"""What a demotion that is refused has done: nothing, the mirror is still shut out; and in which order one is made."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.changeover import directions as acts
from ledger.changeover.directions import Declared
from ledger.changeover.pairs import Pair
from ledger.changeover.shut_out import LetInResult
from ledger.config.mirror import MirrorConfig
from ledger.errors import ClusterUnavailableError, PreconditionError
from ledger.facts.direction import Demoted, Directions, Promoted
from ledger.facts.operations import Why
from tests.support.config_texts import BASE, load

FORTH = """
[flows.forth]
source = "east"
target = "west"
topics = ["orders"]
topic_naming = "identity"
opposite = "back"
"""
BACK = FORTH.replace("flows.forth", "flows.back").replace('opposite = "back"', 'opposite = "forth"')
BACK = BACK.replace('source = "east"\ntarget = "west"', 'source = "west"\ntarget = "east"')
PAIR = Pair("west", "east", ("orders",))
PROMOTED = Promoted(cluster="west", cluster_id="W", former="east", former_id="E", topics=("orders",))


class Site:
    """A promoted cluster with rules that shut the mirror out; `done`: what was done there, in its order."""

    def __init__(self, patch: pytest.MonkeyPatch, config: MirrorConfig, *, is_promoted: bool = True) -> None:
        self.done: list[str] = []
        self.refused: Exception | None = None
        changes = ((PROMOTED, "an operator"),) if is_promoted else ()
        state = SimpleNamespace(
            directions=lambda: Directions(changes),
            shut_outs=lambda: SimpleNamespace(has_rules=lambda *_: True),
        )
        self.context: Any = SimpleNamespace(
            config=config,
            why=Why("back", operation_id="op"),
            state=state,
            part_of=lambda _operation_id: self.context,
            record=self._record,
        )
        patch.setattr(acts, "_live_id", lambda _context, alias: self._read(f"id of {alias}"))
        patch.setattr(acts, "ends_to_keep", self._ends)
        patch.setattr(acts, "let_in", self._let_in)

    def demote(self, *, keep_ends: bool) -> Declared:
        return acts.change_direction(self.context, Demoted, PAIR, keep_ends=keep_ends)

    def refuse(self, error: Exception, at: str) -> None:
        self.refused, self.at = error, at

    def _read(self, what: str) -> str:
        if self.refused is not None and self.at == what:
            raise self.refused
        self.done.append(what)
        return what

    def _ends(self, *_: object, operation_id: str) -> SimpleNamespace:
        self._read("ends")
        return SimpleNamespace(operation_id=operation_id, words="a cut")

    def _let_in(self, *_: object) -> LetInResult:
        self.done.append("let in")
        return LetInResult("op", ())

    def _record(self, *_: object, **_more: object) -> None:
        self.done.append("recorded")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    return Site(monkeypatch, load(tmp_path, BASE + FORTH + BACK))


@pytest.mark.parametrize("at", ["id of west", "ends"])
def test_a_demotion_that_is_refused_has_not_let_the_mirror_in(site: Site, at: str) -> None:
    site.refuse(PreconditionError("nothing was demoted"), at)
    with pytest.raises(PreconditionError, match="nothing was demoted"):
        site.demote(keep_ends=True)
    assert {"let in", "recorded"}.isdisjoint(site.done)


def test_one_whose_cluster_does_not_answer_has_not_let_it_in(site: Site) -> None:
    site.refuse(ClusterUnavailableError("no answer"), "id of west")
    with pytest.raises(ClusterUnavailableError):
        site.demote(keep_ends=False)
    assert site.done == []


def test_the_mirror_is_let_in_once_all_is_read_and_before_the_demotion_is_recorded(site: Site) -> None:
    assert site.demote(keep_ends=True).operation_id == "op"
    assert site.done == ["id of west", "id of east", "ends", "let in", "recorded"]


def test_rules_that_a_demotion_left_are_removed_by_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = Site(monkeypatch, load(tmp_path, BASE + FORTH + BACK), is_promoted=False)
    assert site.demote(keep_ends=False).operation_id == "op"
    assert site.done == ["let in"]
