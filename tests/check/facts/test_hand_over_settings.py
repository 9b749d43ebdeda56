"""Settings when a direction changes: what applications need, what a copy needs, and the way back."""

from collections.abc import Mapping

import pytest

from ledger.facts.hand_overs import (
    LiveTopic,
    Settings,
    TopicHandOver,
    before_fence,
    for_applications,
    for_copying,
    in_words,
    merged,
)
from ledger.topics.following import REQUIRED_AT_TARGET, SettingsChange

DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "unclean.leader.election.enable": "false",
}
NOTHING = SettingsChange()


def live(own: Settings, replicas: int = 2) -> LiveTopic:
    return LiveTopic(
        name="orders", topic_id="T", replication_factor=replicas, own=own, effective={**DEFAULTS, **own}
    )


def changed(
    own: Settings, former_side: Settings, *, mirrored: frozenset[str] = frozenset(), is_known: bool = True
) -> tuple[Mapping[str, str], tuple[str, ...], list[str]]:
    change, remarks = for_applications(
        live(own), former_side, limit_is_known=is_known, set_by_mirror=mirrored
    )
    return change.to_set, change.to_remove, [remark.words for remark in remarks]


@pytest.mark.parametrize(
    ("own", "former_side", "to_set", "to_remove"),
    [
        (
            REQUIRED_AT_TARGET,
            {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"},
            {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"},
            ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms"),
        ),
        ({"compression.type": "producer"}, {"compression.type": "producer"}, {}, ()),
        (
            {"retention.ms": "1", "segment.bytes": "7"},
            {"retention.ms": "2", "unclean.leader.election.enable": "true"},
            {"retention.ms": "2", "unclean.leader.election.enable": "true"},
            (),
        ),
        ({}, {"min.insync.replicas": "2"}, {"min.insync.replicas": "2"}, ()),
        ({}, {"remote.storage.enable": "true", "leader.replication.throttled.replicas": "*"}, {}, ()),
    ],
    ids=["what copying needed", "equal", "what somebody set there", "replicas", "of one cluster"],
)
def test_applications_find_the_settings_of_the_other_side(
    own: Settings, former_side: Settings, to_set: Settings, to_remove: tuple[str, ...]
) -> None:
    assert changed(own, former_side) == (to_set, to_remove, [])


def test_what_the_flow_had_set_is_removed_but_no_bound_of_what_is_kept() -> None:
    own = {"flush.ms": "1", "segment.bytes": "7", "retention.ms": "8"}
    mirrored = frozenset({"flush.ms", "cleanup.policy", "retention.ms"})
    assert changed(own, {}, mirrored=mirrored) == ({}, ("flush.ms",), [])


@pytest.mark.parametrize(
    ("own", "former_side", "is_left"),
    [
        ({}, {"retention.ms": "604799999"}, True),
        ({}, {"retention.ms": "604800000"}, False),
        ({}, {"retention.ms": "-1"}, False),
        ({"retention.ms": "-1"}, {"retention.ms": "604800000"}, True),
        ({}, {"retention.bytes": "1"}, True),
        ({"retention.bytes": "1"}, {"retention.bytes": "-1"}, False),
    ],
)
def test_nothing_is_kept_for_less_long(own: Settings, former_side: Settings, is_left: bool) -> None:
    to_set, to_remove, words = changed(own, former_side, mirrored=frozenset({"retention.ms"}))
    assert (to_set, to_remove) == ({} if is_left else former_side, ())
    assert [word.endswith("to lower it deletes records") for word in words] == [True] * is_left


def test_more_replicas_in_sync_than_there_are_is_lowered_and_said() -> None:
    to_set, _, words = changed({}, {"min.insync.replicas": "3"})
    assert to_set == {"min.insync.replicas": "2"}
    assert words == ["min.insync.replicas is 2 instead of 3: it has no more replicas"]


def test_a_setting_that_the_cluster_does_not_know_is_left_out_and_said() -> None:
    assert changed({}, {"new.setting": "1"}) == (
        {},
        (),
        ["its cluster knows no setting new.setting, it was left out"],
    )


LIMIT, SHUT = {"max.message.bytes": "5000000"}, {"max.message.bytes": "78"}


@pytest.mark.parametrize(
    ("own", "earlier", "expected"),
    [
        (LIMIT, [], LIMIT),
        ({"a": "1", **SHUT}, [{**LIMIT, "a": "0"}, SHUT], {**LIMIT, "a": "1"}),
        (SHUT, [LIMIT, {}, SHUT], {}),
        (SHUT, [SHUT], None),
        ({"max.message.bytes": "128"}, [{"max.message.bytes": "129"}], {"max.message.bytes": "129"}),
        ({"max.message.bytes": "129"}, [], {"max.message.bytes": "129"}),
    ],
)
def test_the_limit_before_a_fence_counts(
    own: Settings, earlier: list[Settings], expected: Settings | None
) -> None:
    assert before_fence(own, earlier) == expected


@pytest.mark.parametrize(
    ("own", "former_side", "is_known", "telling"),
    [
        (SHUT, LIMIT, True, "lift the fence"),
        ({}, SHUT, False, "set it by hand"),
        (LIMIT, SHUT, False, "set it"),
    ],
)
def test_a_fence_is_neither_carried_nor_lifted(
    own: Settings, former_side: Settings, is_known: bool, telling: str
) -> None:
    to_set, to_remove, [words] = changed(
        own, former_side, is_known=is_known, mirrored=frozenset({"max.message.bytes"})
    )
    assert (to_set, to_remove) == ({}, ())
    assert telling in words


@pytest.mark.parametrize(
    ("own", "source", "to_set"),
    [
        ({}, {}, {"message.timestamp.after.max.ms": str(2**63 - 1)}),
        (
            {**REQUIRED_AT_TARGET, "compression.type": "gzip", "message.timestamp.type": "LogAppendTime"},
            {},
            {"compression.type": "producer", "message.timestamp.type": "CreateTime"},
        ),
        (REQUIRED_AT_TARGET, {"max.message.bytes": "1048588"}, {}),
        (REQUIRED_AT_TARGET, {"max.message.bytes": "1048589"}, {"max.message.bytes": "1048589"}),
        (REQUIRED_AT_TARGET, SHUT, {}),
        (REQUIRED_AT_TARGET, {"retention.ms": "604800000"}, {}),
        (REQUIRED_AT_TARGET, {"retention.ms": "604800001"}, {"retention.ms": "604800001"}),
        (REQUIRED_AT_TARGET, {"retention.ms": "-1"}, {"retention.ms": "-1"}),
        ({**REQUIRED_AT_TARGET, "retention.ms": "-1"}, {"retention.ms": "604800000"}, {}),
        ({**REQUIRED_AT_TARGET, "cleanup.policy": "compact"}, {"retention.ms": "-1"}, {}),
    ],
)
def test_a_copy_needs_the_bytes_the_times_and_as_much_room(
    own: Settings, source: Settings, to_set: Settings
) -> None:
    change, remarks = for_copying(live(own), {**DEFAULTS, **source})
    assert (change, remarks) == (SettingsChange(to_set), [])


def test_nothing_is_copied_to_a_fenced_topic_and_its_fence_is_not_lifted() -> None:
    change, [remark] = for_copying(live({**REQUIRED_AT_TARGET, **SHUT}), {**DEFAULTS, **LIMIT})
    assert (change, "nothing can be copied to it" in remark.words) == (NOTHING, True)
    assert in_words([remark]) == (f"orders: {remark.words}",)


# The way back -----------------------------------------------------------------------------------

BEFORE = {"a": "1", "b": "1", "d": "1"}
MADE = TopicHandOver.of("orders", "T", SettingsChange({"a": "2", "c": "2"}, ("b",)), BEFORE)
AFTER = {"a": "2", "c": "2", "d": "1"}


@pytest.mark.parametrize(
    ("own", "to_set", "to_remove", "since"),
    [
        (AFTER, {"a": "1", "b": "1"}, ("c",), ()),
        (BEFORE, {}, (), ()),
        ({**AFTER, "a": "3"}, {"b": "1"}, ("c",), ("a",)),
        ({**AFTER, "b": "3"}, {"a": "1"}, ("c",), ("b",)),
        ({"a": "2", "d": "1"}, {"a": "1", "b": "1"}, (), ()),
    ],
    ids=["all", "done before", "changed since", "set since", "one done before"],
)
def test_what_is_still_as_it_was_made_is_restored(
    own: Settings, to_set: Settings, to_remove: tuple[str, ...], since: tuple[str, ...]
) -> None:
    assert MADE.way_back(own) == SettingsChange(to_set, to_remove)
    assert MADE.changed_since(own) == since


@pytest.mark.parametrize(("own", "is_made"), [(AFTER, True), (BEFORE, False), ({**AFTER, "b": "1"}, False)])
def test_it_is_made_when_all_of_it_is_so(own: Settings, is_made: bool) -> None:
    assert MADE.is_made(own) is is_made


def test_several_runs_are_one_change_from_what_there_was_first() -> None:
    half = TopicHandOver.of("orders", "T", SettingsChange({"a": "2"}), BEFORE)
    rest = TopicHandOver.of("orders", "T", SettingsChange({"a": "2", "c": "2"}, ("b",)), {**BEFORE, "a": "2"})
    recreated = TopicHandOver.of("orders", "U", SettingsChange({"a": "2"}), {})
    assert merged([half, rest, recreated]) == [MADE, recreated]


def test_what_was_handed_over_is_lacking_where_it_is_as_before_and_not_where_somebody_has_changed_it() -> (
    None
):
    made = TopicHandOver.of(
        "orders",
        "W1",
        SettingsChange({"retention.ms": "900"}, ("compression.type",)),
        {"compression.type": "producer"},
    )
    assert made.lacking({"retention.ms": "900"}) is None
    assert made.lacking({"retention.ms": "700"}) is None, "people have changed it"
    lacking = made.lacking({"compression.type": "producer"})
    assert lacking is not None
    assert lacking.change == SettingsChange({"retention.ms": "900"}, ("compression.type",))
