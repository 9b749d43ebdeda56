"""What `promote`, `demote` and `accept-cluster` are asked, held against the configuration, the ledger and clusters."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.changeover import directions as acts
from ledger.changeover.directions import (
    Declared,
    acceptance_consequences,
    consequences,
    is_done,
    judge_acceptance,
    require_nothing_behind,
    require_promotable,
)
from ledger.changeover.pairs import Pair, require_opposites
from ledger.changeover.shut_out import LetInResult
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig, TargetMode
from ledger.errors import ClusterUnavailableError, PreconditionError, UsageError
from ledger.facts.direction import Demoted, DirectionChange, Directions, Promoted
from ledger.facts.identity import ClusterIdentities
from ledger.facts.operations import Why
from ledger.topics.naming import NamingKind
from tests.support.config_files import BASE, load
from tests.support.ledger_rows import claimed

# -- Promote and demote ----------------------------------------------------------------------------

ALL, ORDERS = Pair("west", "east", None), Pair("west", "east", ("orders",))
IDS: dict[str, Any] = {"cluster_id": "C", "former_id": "F"}


def own(name: str, source: str = "east", target: str = "west") -> FlowConfig:
    """A flow of which the target can take over."""
    return FlowConfig(
        name=name, source=source, target=target, topics=(".*",), topic_naming=NamingKind.IDENTITY
    )


def copies(flow: FlowConfig, topic: str) -> bool:
    """Flows are called by the topic that they copy."""
    return flow.name == topic


def recorded(*changes: tuple[type[DirectionChange], Pair]) -> Directions:
    rows = [
        (
            kind(
                cluster=pair.cluster,
                former=pair.former,
                topics=pair.topics,
                later=pair.later,
                left_out=pair.left_out,
                **IDS,
            ),
            "by anna",
        )
        for kind, pair in changes
    ]
    return Directions(tuple(rows))


def names(flows: Iterable[FlowConfig]) -> list[str]:
    return [one.name for one in flows]


def test_it_is_about_the_flows_of_the_pair_that_copy_to_the_topics() -> None:
    flows = [own("orders"), own("users"), own("back", "west", "east"), own("north", "north")]
    assert names(ALL.flows_of(flows, copies)) == ["orders", "users"]
    assert names(ORDERS.flows_of(flows, copies)) == ["orders"]


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (
            Pair("west", "north", None),
            "no flow of the configuration copies from north to west; nothing was recorded",
        ),
        (
            Pair("west", "east", ("orders", "none")),
            "no flow from east to west copies to topic none; nothing was",
        ),
    ],
)
def test_what_no_flow_copies_is_refused(pair: Pair, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pair.flows_of([own("orders"), own("back", "west", "east")], copies)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"target_mode": TargetMode.SHARED}, "target_mode of flow f is shared"),
        ({"topic_naming": NamingKind.PREFIX}, "flow f gives topics other names at west"),
    ],
)
def test_targets_that_do_not_take_over_are_refused(changed: dict[str, object], message: str) -> None:
    refused = own("f").model_copy(update=changed)
    require_promotable(ALL, [own("orders")], Directions())
    with pytest.raises(PreconditionError, match=f"{message}.*nothing was recorded"):
        require_promotable(ALL, [own("orders"), refused], Directions())


@pytest.mark.parametrize("pair", [ALL, ORDERS])
@pytest.mark.parametrize("topics", [None, ("orders",)])
def test_both_sides_are_never_promoted(pair: Pair, topics: tuple[str, ...] | None) -> None:
    opposite = Pair("east", "west", topics)
    with pytest.raises(
        PreconditionError,
        match=r"of east was promoted over west by anna.*plan switchover --from east --to west",
    ):
        require_promotable(pair, [own("orders")], recorded((Promoted, opposite)))
    require_promotable(pair, [own("orders")], recorded((Promoted, opposite)), is_exchange=True)
    require_promotable(pair, [own("orders")], recorded((Promoted, opposite), (Demoted, opposite)))


def test_nothing_is_demoted_where_applications_wrote() -> None:
    require_nothing_behind(ORDERS, [own("orders")], [])
    with pytest.raises(
        PreconditionError,
        match=r"(?s)nothing was recorded.*at 7.*--from west --to east --reason WHY.*--topic orders --keep-ends",
    ):
        require_nothing_behind(
            ORDERS, [own("orders")], ["orders partition 0: an application has written at 7"]
        )


def test_another_topic_of_the_other_side_does_not_matter() -> None:
    require_promotable(ORDERS, [own("orders")], recorded((Promoted, Pair("east", "west", ("users",)))))


@pytest.mark.parametrize(
    ("changes", "pair", "promoted", "demoted"),
    [
        ((), ALL, False, True),
        (((Promoted, ALL),), ALL, True, False),
        (((Promoted, ALL),), ORDERS, True, False),
        (((Promoted, ORDERS),), ALL, False, False),
        (((Promoted, ORDERS),), ORDERS, True, False),
        (((Promoted, ORDERS), (Demoted, ALL)), ALL, False, True),
        (((Promoted, ALL), (Demoted, ORDERS)), ALL, False, False),
        (((Promoted, ALL), (Demoted, ORDERS)), ORDERS, False, True),
    ],
)
def test_what_is_so_already_is_not_recorded_again(
    changes: tuple[tuple[type[DirectionChange], Pair], ...], pair: Pair, promoted: bool, demoted: bool
) -> None:
    found = recorded(*changes)
    assert (is_done(pair, Promoted, found), is_done(pair, Demoted, found)) == (promoted, demoted)


def test_it_is_said_what_holds_from_now_on() -> None:
    assert "all topics of west over east is promoted: flow a and b" in consequences(
        ALL, Promoted, [own("b"), own("a")]
    )
    assert consequences(ORDERS, Demoted, [own("a")]) == (
        "orders of west over east is promoted no more: flow a continues where it stood"
    )


def test_ends_are_kept_of_flows_that_name_their_opposites() -> None:
    there = own("orders").model_copy(update={"opposite": "back"})
    assert require_opposites([there]) == ["back"]
    with pytest.raises(UsageError, match="flow users names no opposite"):
        require_opposites([there, own("users")])


# -- A demotion that is refused --------------------------------------------------------------------

WAY_FORTH = """
[flows.forth]
source = "east"
target = "west"
topics = ["orders"]
topic_naming = "identity"
opposite = "back"
"""
WAY_BACK = WAY_FORTH.replace("flows.forth", "flows.back").replace('opposite = "back"', 'opposite = "forth"')
WAY_BACK = WAY_BACK.replace('source = "east"\ntarget = "west"', 'source = "west"\ntarget = "east"')
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
    return Site(monkeypatch, load(tmp_path, BASE + WAY_FORTH + WAY_BACK))


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
    site = Site(monkeypatch, load(tmp_path, BASE + WAY_FORTH + WAY_BACK), is_promoted=False)
    assert site.demote(keep_ends=False).operation_id == "op"
    assert site.done == ["let in"]


# -- Accept a cluster ------------------------------------------------------------------------------

KNOWN = ClusterIdentities.of_rows([claimed("f", 2, producer_id=7)], [])


def test_another_cluster_is_accepted_and_named() -> None:
    accepted = judge_acceptance(KNOWN, "west", "W2", live_id="W2", rebuilt=False)
    assert accepted is not None
    assert (accepted.cluster_id, accepted.former_id, accepted.retired_epochs) == ("W2", "W", {})
    assert "west stands for W2 from now on, no longer for W" in acceptance_consequences(accepted)


def test_of_two_that_first_claims_met_one_is_accepted() -> None:
    elsewhere = {**claimed("g", 1, producer_id=9), "target_cluster_id": "W2"}
    both = ClusterIdentities.of_rows([claimed("f", 2, producer_id=7), elsewhere], [])
    for cluster_id in ("W", "W2"):
        accepted = judge_acceptance(both, "west", cluster_id, live_id=cluster_id, rebuilt=False)
        assert accepted is not None
        assert (accepted.cluster_id, accepted.former_id) == (cluster_id, None)
        assert f"west stands for {cluster_id} from now on: flows" in acceptance_consequences(accepted)


def test_a_rebuilt_cluster_retires_what_was_claimed_there() -> None:
    accepted = judge_acceptance(KNOWN, "west", "W", live_id="W", rebuilt=True)
    assert accepted is not None
    assert accepted.retired_epochs == {"flow:f": 2}
    assert "was formatted again" in acceptance_consequences(accepted)


def test_what_is_so_already_is_nothing_to_do() -> None:
    assert judge_acceptance(KNOWN, "west", "W", live_id="W", rebuilt=False) is None


@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_cluster_that_does_not_answer_there_is_refused(rebuilt: bool) -> None:
    with pytest.raises(PreconditionError, match="behind west has the Kafka cluster id W, not W2; nothing"):
        judge_acceptance(KNOWN, "west", "W2", live_id="W", rebuilt=rebuilt)


def test_nothing_can_be_accepted_for_an_alias_that_nobody_ran_with() -> None:
    with pytest.raises(PreconditionError, match="nobody ever ran with north"):
        judge_acceptance(KNOWN, "north", "N", live_id="N", rebuilt=False)


def test_another_id_is_no_rebuilt_cluster() -> None:
    with pytest.raises(UsageError, match="leave --rebuilt out; nothing was recorded"):
        judge_acceptance(KNOWN, "west", "W2", live_id="W2", rebuilt=True)
