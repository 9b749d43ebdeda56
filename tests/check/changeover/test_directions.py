"""What `promote` and `demote` are asked, held against the configuration and the ledger."""

from collections.abc import Iterable
from typing import Any

import pytest

from ledger.changeover.directions import consequences, is_done, require_nothing_behind, require_promotable
from ledger.changeover.pairs import Pair, require_opposites
from ledger.config.values import FlowConfig, TargetMode
from ledger.errors import PreconditionError, UsageError
from ledger.facts.direction import Demoted, DirectionChange, Directions, Promoted
from ledger.topics.naming import NamingKind

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
