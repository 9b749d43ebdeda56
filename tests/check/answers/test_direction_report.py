"""Whether a flow stands as the directions say: what of its stops is no alarm, and what is to be done."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from ledger.answers.direction import DirectionReport, OneWay, OppositeFlow, Place, WayBack, direction_report
from ledger.answers.drivers import DriverReport, DriverState
from ledger.facts.direction import Demoted, Promoted
from ledger.facts.extras import ExtraRange, ExtrasDecided
from ledger.facts.fences import Fence, Unfenced
from ledger.facts.hand_overs import HandedOver, TopicHandOver
from ledger.facts.operations import DriverStarting, OperationContent
from ledger.topics.following import SettingsChange
from tests.support.ledger_rows import row

THERE, BACK = "east-to-west", "west-to-east"
WEST: dict[str, Any] = {"cluster": "west", "cluster_id": "W", "former": "east", "former_id": "E"}
PROMOTED = Promoted(**WEST, topics=None)
RUNNING = DriverReport(DriverState.RUNNING, claimed_at_ms=1)
FENCE = Fence(
    cluster="east", cluster_id="E", topic="orders", topic_id="T", how="closed", proof="proven", former={}
)
UNFENCED = Unfenced(cluster="east", cluster_id="E", topic="orders", topic_id="T", how="shut", restored={})


def partition(number: int = 0, *, topic: str = "orders", **values: object) -> dict[str, object]:
    """A row of `flow_status` with its lag."""
    copied = {"source_topic": topic, "source_topic_id": topic, "source_partition": number, "source_end": 7}
    ends = {"mirrored_end": 7, "last_stable": 7, "lag_records": 0}
    return {**copied, "target_topic": topic, "stop_cause": None, **ends, **values}


STOPPED = partition(stop_cause="promoted")


def rows_of(contents: Sequence[OperationContent | str]) -> list[Mapping[str, Any]]:
    """Operation n at n ms; a text is a flow that is started for the first time."""
    made = [DriverStarting(host="h") if isinstance(one, str) else one for one in contents]
    return [
        row(
            "operations",
            kind=str(content.kind),
            content=json.dumps(content.content()),
            flow=given if isinstance(given, str) else None,
            operation_id=f"o{number}",
            operator="anna",
            round=number,
            recorded_at_ms=number,
        )
        for number, (given, content) in enumerate(zip(contents, made, strict=True), start=1)
    ]


def report(
    *contents: OperationContent | str,
    partitions: Sequence[Mapping[str, object]] = (STOPPED,),
    driver: DriverReport = RUNNING,
    back: DriverReport | None = RUNNING,
    is_enabled: bool = True,
    is_paused: bool = False,
    cuts: Sequence[str] = (),
    copied_back: Mapping[Place, int] = MappingProxyType({}),
    moving: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> DirectionReport:
    """Of the flow from east to west; `back` None: it has no opposite; `cuts`: at which a way back can begin.

    `copied_back`: where the map of the opposite flow ends at east. `moving`: by cluster groups at work on `orders`
    since the promotion.
    """
    opposite = (
        None
        if back is None
        else OppositeFlow(name=BACK, enabled=is_enabled, driver=lambda: back, copied_to=lambda: copied_back)
    )
    way = OneWay(
        flow=THERE,
        source="east",
        target="west",
        is_mirrored=lambda topic: topic != "left-out",
        opposite=opposite,
        begins_at=lambda _flow, operation: operation in cuts,
        moving=lambda cluster, topics, since_ms: (
            moving.get(cluster, ()) if (topics, since_ms) == (("orders",), 2) else ()
        ),
    )
    return direction_report(
        way, driver, is_paused=is_paused, partitions=partitions, rows=rows_of([THERE, *contents])
    )


def test_a_promotion_as_it_should_be_needs_nothing() -> None:
    found = report(FENCE, PROMOTED)
    assert found == DirectionReport(
        promoted=("orders",),
        way_back=WayBack.AT_WORK,
        gave_way=True,
        remarks=("west is promoted over east: 1 partition stopped for that; west-to-east copies back",),
    )
    assert found.explains("orders", "promoted")
    assert not found.explains("orders", "foreign_write")
    assert not found.explains("orders", "opposite_holds")
    assert not found.explains("users", "promoted")


def test_of_two_promotions_the_newest_says_where_applications_are() -> None:
    """By a failover behind a failback both sides are promoted, until the lost one is mirrored to again."""
    home = Promoted(cluster="east", cluster_id="E", former="west", former_id="W", topics=None)
    found = report(PROMOTED, home)
    assert (found.promoted, found.way_back, found.gave_way, found.attention) == (("orders",), None, True, ())
    assert found.remarks == (
        "applications are at east, which was promoted over west since: east-to-west copies orders there again once "
        "that is decided: mirror-ledger plan failback --from east --to west --reason WHY",
    )
    assert found.explains("orders", "promoted")
    assert report(home, PROMOTED).way_back is WayBack.AT_WORK


def test_without_a_promotion_a_former_stop_is_over_and_waits_for_the_driver_alone() -> None:
    home = Promoted(cluster="east", cluster_id="E", former="west", former_id="W", topics=None)
    ended, run = DriverReport(DriverState.RELEASED, claimed_at_ms=1), "mirror-ledger run east-to-west"
    for contents, driver, start in (
        ((), RUNNING, None),
        ((FENCE, PROMOTED, Demoted(**WEST, topics=None)), RUNNING, None),
        ((FENCE, PROMOTED, Demoted(**WEST, topics=None)), ended, run),
        ((PROMOTED, home, Demoted(**WEST, topics=None)), ended, f"{run} --from-cut o3"),
        ((PROMOTED, home, Demoted(**WEST, topics=None, cut_operation="o3")), ended, run),
    ):
        found = report(
            *contents,
            driver=driver,
            back=DriverReport(DriverState.NEVER_RAN),
            cuts=["o3"] if home in contents else [],
        )
        assert (found.over, found.start, found.promoted) == (("orders",), start, ())
        assert found.attention == (
            "1 partition stopped for a direction that holds no more; next: "
            + (start or "its driver, which is at work"),
        )
        assert not found.explains("orders", "promoted")


@pytest.mark.parametrize(
    ("contents", "is_missing"),
    [
        ((PROMOTED,), True),
        ((FENCE, UNFENCED, PROMOTED), True),
        ((PROMOTED, FENCE), False),
        ((FENCE, PROMOTED, UNFENCED), False),
    ],
    ids=["none", "lifted-before", "later", "lifted-since"],
)
def test_a_fence_is_asked_for_where_nobody_made_one(
    contents: Sequence[OperationContent], *, is_missing: bool
) -> None:
    words = (
        "nobody has fenced orders of east, where applications wrote before: mirror-ledger fence east --reason WHY"
        if is_missing
        else None
    )
    assert report(*contents).attention == ((words,) if words else ())


def test_a_topic_that_the_flow_never_copied_needs_no_fence() -> None:
    new = partition(topic="new", stop_cause="promoted", target_topic=None, source_end=None, lag_records=None)
    found = report(FENCE, PROMOTED, partitions=[STOPPED, new])
    assert (found.attention, found.promoted, found.extras_at_most) == ((), ("new", "orders"), 0)


@pytest.mark.parametrize(
    ("driver", "state"),
    [
        (DriverReport(DriverState.NEVER_RAN), "never_ran"),
        (DriverReport(DriverState.RELEASED, claimed_at_ms=1), "released"),
        (DriverReport(DriverState.DEAD, claimed_at_ms=1), "dead"),
        (DriverReport(DriverState.SILENT, claimed_at_ms=1), "silent"),
    ],
)
def test_the_way_back_is_asked_for_until_it_is_at_work_or_not_wanted(
    driver: DriverReport, state: str
) -> None:
    for cuts, advice in (
        (["o3"], "mirror-ledger run west-to-east --from-cut o3"),
        (
            [],
            "mirror-ledger plan failback --from west --to east --reason WHY (with --stop-before switch applications "
            "stay)",
        ),
    ):
        found = report(FENCE, PROMOTED, back=driver, cuts=cuts)
        assert found.way_back is WayBack.NOT_AT_WORK
        assert found.attention == (
            "what is written at west is not mirrored back to east: the driver of west-to-east is not at work "
            f"({state}); {advice}, or mirror-ledger promote west --over east --no-reverse --reason WHY says that it "
            "need not be",
        )
    alone = report(FENCE, PROMOTED, Promoted(**WEST, topics=None, no_reverse=True), back=driver)
    assert (alone.attention, alone.way_back) == ((), WayBack.NOT_WANTED)
    assert "nothing is mirrored back, as was said with the promotion" in alone.remarks[0]
    disabled = report(FENCE, PROMOTED, back=driver, is_enabled=False)
    assert (disabled.attention, disabled.way_back) == ((), WayBack.DISABLED)


def test_a_way_back_that_had_begun_is_started_again() -> None:
    ended = DriverReport(DriverState.RELEASED, claimed_at_ms=4)
    [said] = report(FENCE, PROMOTED, back=ended, cuts=["o3"]).attention
    assert "(released); mirror-ledger run west-to-east, or" in said


@pytest.mark.parametrize("state", [DriverState.STARTING, DriverState.CLAIMED])
def test_a_way_back_that_starts_or_of_which_nobody_knows_passes(state: DriverState) -> None:
    assert report(FENCE, PROMOTED, back=DriverReport(state)).attention == ()


def test_a_flow_without_an_opposite_needs_one_or_a_word() -> None:
    found = report(FENCE, PROMOTED, back=None)
    assert found.way_back is WayBack.NO_FLOW
    [said] = found.attention
    assert "flow east-to-west has no opposite; configure one, or mirror-ledger promote west" in said
    assert report(FENCE, Promoted(**WEST, topics=None, no_reverse=True), back=None).attention == ()


def test_a_driver_at_work_has_to_stop_what_is_promoted() -> None:
    going = [partition(), partition(1, stop_cause="promoted"), partition(2, stop_cause="denied")]
    [said] = report(FENCE, PROMOTED, partitions=going).attention
    assert said.startswith("1 partition promoted at west and not stopped yet: ")
    assert report(FENCE, PROMOTED, partitions=going, is_paused=True).attention == ()
    ended = DriverReport(DriverState.RELEASED)
    assert report(FENCE, PROMOTED, partitions=going, driver=ended).attention == ()


def test_what_is_at_the_source_alone_is_said() -> None:
    for lags, extras, many in (
        ((3, 4), 7, "at most 7 records at east alone: mirror-ledger query one_sided_records "),
        ((3, None), None, "an unknown number of records at east alone: mirror-ledger query"),
        ((0, 0), 0, None),
    ):
        partitions = [
            partition(number, stop_cause="promoted", lag_records=lag) for number, lag in enumerate(lags)
        ]
        found = report(FENCE, PROMOTED, partitions=partitions)
        assert (found.extras_at_most, found.attention) == (extras, ())
        assert [line.startswith(many or "?") for line in found.remarks[1:]] == [True] * bool(many)


@pytest.mark.parametrize(
    ("end", "copied_to", "back", "extras"),
    [
        (362, 7, RUNNING, 0),  # all of it was written by the way back since it recorded last
        (362, 300, RUNNING, 293),  # 62 of it
        (362, 362, RUNNING, 355),  # none: it lies in front of what came back
        (362, None, RUNNING, 355),  # it has begun nothing there
        (362, 7, DriverReport(DriverState.RELEASED, claimed_at_ms=1), 355),  # nobody copies there
    ],
)
def test_copies_under_way_are_not_at_the_source_alone(
    end: int, copied_to: int | None, back: DriverReport, extras: int
) -> None:
    """Of offsets 7 to 361 none is recorded as copied by either flow, up to where the way back has recorded."""
    behind = partition(stop_cause="promoted", last_stable=end, lag_records=end - 7)
    there = {} if copied_to is None else {("orders", "orders", 0): copied_to}
    found = report(FENCE, PROMOTED, partitions=[behind], back=back, copied_back=there)
    assert found.extras_at_most == extras
    assert any("at east alone" in line for line in found.remarks) == bool(extras)


def decided(*ranges: tuple[int, int], policy: str = "keep_local", topic_id: str = "orders") -> ExtrasDecided:
    return ExtrasDecided(
        cluster="east",
        cluster_id="E",
        topic="orders",
        topic_id=topic_id,
        policy=policy,
        ranges=tuple(ExtraRange(partition=0, extra_start=start, extra_end=end) for start, end in ranges),
    )


@pytest.mark.parametrize(
    ("decisions", "extras", "kept", "words"),
    [
        ([decided((7, 17))], 0, 10, "10 offsets stay at east, as was decided"),
        (
            [decided((3, 17))],
            0,
            10,
            "10 offsets stay at east, as was decided",
        ),  # some lie below the map's end
        (
            [decided((7, 12), (13, 15))],
            3,
            7,
            "at most 3 records at east alone, besides 7 offsets that stay there by decision: mirror-ledger",
        ),
        (
            [decided((7, 17)), decided((7, 9), policy="replicate")],
            2,
            8,
            "at most 2 records at east alone, bes",
        ),
        ([decided((7, 17), topic_id="former")], 10, 0, "at most 10 records at east alone: mirror-ledger"),
    ],
)
def test_extras_that_were_decided_to_stay_are_not_counted_as_open(
    decisions: Sequence[ExtrasDecided], extras: int, kept: int, words: str
) -> None:
    """Lag leaves them out."""
    behind = partition(stop_cause="promoted", last_stable=17, lag_records=extras)
    found = report(FENCE, PROMOTED, *decisions, partitions=[behind])
    assert (found.extras_at_most, found.extras_kept) == (extras, kept)
    assert found.remarks[1].startswith(words)


def test_it_is_said_whether_groups_can_read_where_they_read_before() -> None:
    made = replace(FENCE, denied=("User:a",))
    for fences, expected in (
        ([FENCE], []),
        ([made], [f"groups can still read orders of east: {KEEPS_OUT}"]),
        ([replace(made, denied_reading=())], ["groups cannot read orders of east"]),
        (
            [replace(FENCE, how="shut", former={"max.message.bytes": None})],
            ["groups can still read orders of east"],
        ),
        ([made, replace(made, denied_reading=("User:b",)), UNFENCED], []),
    ):
        assert list(report(PROMOTED, *fences).remarks[1:]) == expected


def test_groups_at_work_where_applications_were_are_named_and_at_both_sides_they_are_an_alarm() -> None:
    nothing = report(partitions=[partition()], moving={"east": ["a"], "west": ["a"]})
    assert nothing.attention == (), "nothing is promoted"
    for moving, attention, remarks in (
        ({"west": ["a"]}, [], []),
        ({"east": ["a", "b"], "west": ["c"]}, [], ["'a', 'b' at work at east"]),
        (
            {"east": ["a", "b"], "west": ["b"]},
            [f"'b' at work at west and at east: {STOP_THEM}"],
            ["'a' at work at east"],
        ),
    ):
        found = report(PROMOTED, FENCE, moving=moving)
        assert (list(found.attention), list(found.remarks[1:])) == (attention, remarks)


def test_it_is_said_of_which_topics_retention_is_held() -> None:
    about: dict[str, Any] = {"cluster": "east", "cluster_id": "E", "former": "east", "purpose": "retention"}
    change = SettingsChange({"retention.ms": "-1"})
    topics = tuple(TopicHandOver.of(name, "T", change, {}) for name in ("orders", "left-out"))
    held = HandedOver(**about, topics=topics, permissions=(), unknown=(), manual=())
    for contents, expected in (
        ([held], ["nothing is deleted of orders of east: retention is held"]),
        ([replace(held, purpose="mirror")], []),
        ([replace(held, cluster="west")], []),
    ):
        assert list(report(PROMOTED, FENCE, *contents).remarks[1:]) == expected
    assert report(held).remarks == (), "nothing is promoted"


STOP_THEM = "stop the consumers at east, for they read what comes back from west"
KEEPS_OUT = "mirror-ledger fence east --reading --reason WHY keeps them out"


@pytest.mark.parametrize(
    ("there", "stands_by"),
    [
        (RUNNING, True),
        (DriverReport(DriverState.RELEASED), True),
        (DriverReport(DriverState.NEVER_RAN), False),
    ],
)
def test_a_flow_that_never_ran_beside_its_opposite_stands_by(there: DriverReport, *, stands_by: bool) -> None:
    never = DriverReport(DriverState.NEVER_RAN)
    assert report(driver=never, back=there, partitions=()).stands_by is stands_by
    assert not report(driver=never, back=None, partitions=()).stands_by
    assert not report(back=there, partitions=()).stands_by, "it has run"


def test_a_flow_of_which_a_part_is_promoted_still_needs_its_driver() -> None:
    orders = Promoted(**WEST, topics=("orders",))
    users = partition(topic="users", lag_records=9)
    found = report(FENCE, orders, partitions=[STOPPED, users])
    assert (found.promoted, found.gave_way, found.extras_at_most) == (("orders",), False, 0)
    left_out = partition(topic="left-out")
    assert report(FENCE, orders, partitions=[STOPPED, left_out]).gave_way


def test_the_flow_that_waits_for_the_other_direction_is_as_it_should_be() -> None:
    waiting = partition(stop_cause="opposite_holds")
    way = OneWay(
        flow=BACK,
        source="west",
        target="east",
        is_mirrored=lambda _topic: True,
        opposite=OppositeFlow(name=THERE, enabled=True, driver=lambda: RUNNING, copied_to=dict),
        begins_at=lambda _flow, _operation: False,
    )

    def of(*contents: OperationContent | str) -> DirectionReport:
        return direction_report(way, RUNNING, is_paused=False, partitions=[waiting], rows=rows_of(contents))

    found = of(THERE, BACK)
    assert (found.waits, found.attention, found.gave_way) == (("orders",), (), False)
    assert found.remarks == ("1 topic left to east-to-west, whose direction holds",)
    assert found.explains("orders", "opposite_holds")
    assert not of(BACK, THERE).explains("orders", "opposite_holds"), "it was started first"
    assert not of(THERE, BACK, PROMOTED).explains("orders", "opposite_holds"), "its source is promoted"
