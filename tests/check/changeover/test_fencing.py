"""Fences in steps: what is recorded and made in which order, ended anywhere and continued, proved, given up, lifted."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ledger.answers.direction import fences_needing_attention
from ledger.changeover.fencing import doubts, fence, leave_open, unfence
from ledger.changeover.measures import SETTING, FenceResult
from ledger.cli.acts import fencing as commands
from ledger.errors import ClusterUnavailableError, PreconditionError, UnsafeError, UsageError
from ledger.facts.acls import denial
from ledger.facts.fences import Fence, FenceHow, Proof
from ledger.facts.operations import Why
from ledger.kafka.cluster import CoordinatedTransaction, TopicDescription
from ledger.machine import HookCommand, HookResult
from tests.support.fenced_clusters import (
    MIRROR,
    EndedError,
    FencedCluster,
    FenceSite,
    Steps,
    allowing,
    asked,
)

OURS = {denial("orders", "User:a"), denial("users", "User:b")}
HOOK = HookCommand(("stop-them", "--all"), 5.0)
WAYS = pytest.mark.parametrize("how", [FenceHow.CLOSED, FenceHow.SHUT])

WHY = Why("a fire")


def rows(site: FenceSite) -> list[Fence]:
    return [Fence.of_row(row) for row in site.ledger.rows("operations") if row["kind"] == "fence"]


def proofs(fences: Sequence[Fence]) -> list[tuple[str, str]]:
    return [(one.topic, one.proof) for one in fences]


def test_leaders_prove_it_within_seconds_however_long_writers_pause() -> None:
    site = FenceSite()
    done = fence(asked(), site.parts(), WHY)
    assert proofs(rows(site)) == [
        *(("orders", "begun"), ("users", "begun")),
        *(("orders", "proven"), ("users", "proven")),
    ]
    assert site.clock.now_s == pytest.approx(1_001.0, abs=0.1), "orders 1 paused for 20 s"
    assert site.asked_for_pauses == 0, "nobody waits for the ledger"
    assert [(one.partition, one.end, one.quiet_ms, one.evidence) for one in done.fences[0].partitions] == [
        (0, 2, 1_000, "rules"),
        (1, 0, 1_000, "rules"),
    ]
    assert (done.proof, {row["operation_id"] for row in site.ledger.rows("operations")}) == (
        Proof.PROVEN,
        {done.operation_id},
    )
    assert site.cluster.acls == {allowing("User:a"), allowing("User:b", "users"), *OURS}


def test_the_rows_of_an_apply_share_its_operation() -> None:
    site = FenceSite()
    assert fence(asked(), site.parts(), Why(operation_id="apply-1")).operation_id == "apply-1"
    assert unfence("east", None, site.parts(), Why(operation_id="apply-2")).operation_id == "apply-2"
    assert [row["operation_id"] for row in site.ledger.rows("operations")] == ["apply-1"] * 4 + [
        "apply-2"
    ] * 2


@WAYS
@pytest.mark.parametrize("before", [True, False])
def test_ended_at_any_step_and_continued_it_comes_to_the_same(how: FenceHow, *, before: bool) -> None:
    """Also what a process was about to remove is removed by the next one, and nothing else."""
    foreign = denial("orders", "User:x")
    for number in range(1, 20):
        site = FenceSite()
        site.cluster.acls |= {foreign}
        site.cluster.settings["users"] = {SETTING: "500"}
        site.cluster.steps = Steps(**{"ends_before" if before else "ends_after": number})
        ends = 0
        for _ in range(2):
            try:
                fence(asked(how, producers_stopped=True), site.parts(), WHY)
                break
            except EndedError:
                ends += 1
        made = set(OURS) if how is FenceHow.CLOSED else set()
        is_made = {allowing("User:a"), allowing("User:b", "users"), foreign, *made}
        assert site.cluster.acls == is_made, number
        shut = {"orders": {SETTING: "78"}, "users": {SETTING: "78"}}
        assert (site.cluster.settings == shut) == (how is FenceHow.SHUT)
        assert [one.fence.proof for one in site.ledger.fences().at("east")] == ["proven", "proven"]
        for _ in range(2):
            try:
                unfence("east", None, site.parts(), WHY)
                break
            except EndedError:
                ends += 1
        assert site.cluster.acls == {allowing("User:a"), allowing("User:b", "users"), foreign}, number
        assert site.cluster.settings == {"orders": {}, "users": {SETTING: "500"}}, number
        assert site.ledger.fences().at("east") == []
        if not ends:
            assert number > 6, "every step was tried"
            return
    pytest.fail("it never came to an end")


READING = {denial("orders", "User:reader", "read"), denial("users", "User:b", "read")}


def site_with_readers() -> FenceSite:
    """The mirror reads as well, and a rule of the same kind is there that no fence has made."""
    site = FenceSite()
    site.cluster.acls |= {
        allowing("User:reader", operation="read"),
        allowing("User:b", "users", "all"),
        allowing(MIRROR, operation="read"),
        denial("orders", "User:x", "read"),
    }
    return site


@pytest.mark.parametrize("before", [True, False])
def test_for_reading_too_it_is_made_and_lifted_as_one_fence_ended_at_any_step(*, before: bool) -> None:
    for number in range(1, 30):
        site = site_with_readers()
        there = set(site.cluster.acls)
        site.cluster.steps = Steps(**{"ends_before" if before else "ends_after": number})
        ends = 0
        for _ in range(2):
            try:
                done = fence(asked(reading=True), site.parts(), WHY)
                break
            except EndedError:
                ends += 1
        assert "for reading too" in done.words
        assert site.cluster.acls == there | OURS | READING, number
        fences = [one.fence for one in site.ledger.fences().at("east")]
        assert [(one.proof, one.denied_reading) for one in fences] == [
            ("proven", ("User:reader",)),
            ("proven", ("User:b",)),
        ]
        for _ in range(2):
            try:
                unfence("east", None, site.parts(), WHY)
                break
            except EndedError:
                ends += 1
        assert site.cluster.acls == there, number
        if not ends:
            assert number > 10, "every step was tried"
            return
    pytest.fail("it never came to an end")


def test_a_fence_is_made_one_for_reading_too_and_stays_one() -> None:
    site = site_with_readers()
    fence(asked(), site.parts(), WHY)
    assert READING.isdisjoint(site.cluster.acls)
    assert fence(asked(FenceHow.CLOSED, "orders", reading=True), site.parts(), WHY).operation_id
    assert site.cluster.acls & READING == {denial("orders", "User:reader", "read")}
    again = fence(asked(), site.parts(), WHY)
    assert (again.operation_id, again.words) == (
        None,
        "orders, users is fenced, orders for reading too and proved already",
    )
    site.cluster.acls.add(allowing("User:new", operation="read"))
    assert standing(site) == ("User:new may read orders of east by now",)
    fence(asked(), site.parts(), WHY)
    assert denial("orders", "User:new", "read") in site.cluster.acls
    assert standing(site) == ()
    site.cluster.acls.discard(denial("orders", "User:reader", "read"))
    [lacking] = standing(site)
    assert "1 of the rules that fence orders" in lacking


def test_where_the_mirror_copies_back_a_fence_that_was_proved_can_become_one_for_reading() -> None:
    site = site_with_readers()
    may_write = allowing(MIRROR, operation="write")
    site.cluster.acls.add(may_write)
    with pytest.raises(PreconditionError, match="is allowed to write to orders"):
        fence(asked(reading=True), site.parts(), WHY)
    site.cluster.acls.discard(may_write)
    fence(asked(FenceHow.CLOSED, "orders"), site.parts(), WHY)
    site.cluster.acls.add(may_write)
    with pytest.raises(PreconditionError, match="is allowed to write to orders"):
        fence(asked(FenceHow.CLOSED, "orders"), site.parts(), WHY)
    assert fence(asked(FenceHow.CLOSED, "orders", reading=True), site.parts(), WHY).proof is Proof.PROVEN
    assert denial("orders", "User:reader", "read") in site.cluster.acls


def test_a_leader_that_lets_groups_read_is_waited_for() -> None:
    """Each has to have the rules about reading as well."""
    site = site_with_readers()
    site.cluster.stale = {2: frozenset(site.cluster.acls | OURS)}
    with pytest.raises(PreconditionError, match="broker 2 does not have 2 of the rules"):
        fence(asked(reading=True), site.parts(), WHY)
    site.cluster.stale = {}
    assert fence(asked(reading=True), site.parts(), WHY).proof is Proof.PROVEN


def test_for_reading_nothing_is_changed_where_everybody_may_read_or_no_rule_is_made() -> None:
    site = site_with_readers()
    site.cluster.acls.add(allowing("User:*", "users", "read"))
    there = set(site.cluster.acls)
    with pytest.raises(PreconditionError, match=r"a rule allows User:\* to read users"):
        fence(asked(reading=True), site.parts(), WHY)
    for how in (FenceHow.SHUT, FenceHow.HOOK):
        with pytest.raises(UsageError, match="--reading goes with --how closed; nothing was changed"):
            fence(asked(how, reading=True, producers_stopped=True, hook=HOOK), site.parts(), WHY)
    assert (site.cluster.acls, rows(site)) == (there, [])


def test_what_is_proved_is_proved_again_only_when_something_has_changed() -> None:
    site = FenceSite()
    first = fence(asked(), site.parts(), WHY)
    count = len(rows(site))
    site.cluster.write("orders", 0, is_control=True)
    again = fence(asked(), site.parts(), WHY)
    assert (again.operation_id, len(rows(site)), again.fences) == (None, count, first.fences)
    site.cluster.acls -= {denial("users", "User:b")}
    assert fence(asked(), site.parts(), WHY).operation_id is not None
    assert denial("users", "User:b") in site.cluster.acls
    site.cluster.write("orders", 1)
    ends = fence(asked(), site.parts(), WHY).fences[0].partitions
    assert [one.end for one in ends] == [3, 1]


def test_what_was_deleted_behind_a_fence_may_have_been_written_by_anybody() -> None:
    site = FenceSite()
    fence(asked(), site.parts(), WHY)
    count = len(rows(site))
    site.cluster.write("orders", 0)
    site.cluster.write("orders", 0)
    site.cluster.starts["orders", 0] = 3
    assert fence(asked(), site.parts(), WHY).operation_id is not None
    assert len(rows(site)) > count, "it is proved again"


def test_a_new_principal_is_denied_by_the_next_fence() -> None:
    site = FenceSite()
    fence(asked(), site.parts(), WHY)
    site.cluster.acls.add(allowing("User:c"))
    assert fence(asked(), site.parts(), WHY).fences[0].denied == ("User:a", "User:c")
    unfence("east", None, site.parts(), WHY)
    assert site.cluster.acls == {allowing("User:a"), allowing("User:b", "users"), allowing("User:c")}


def watched(site: FenceSite, **more: object) -> FenceResult:
    """A fence of `orders` that a hook makes, so that stillness alone shows it."""
    site.hooks.results.append(HookResult(0, "stopped"))
    return fence(asked(FenceHow.HOOK, "orders", hook=HOOK, **more), site.parts(), WHY)


@pytest.mark.parametrize(
    ("pauses", "seconds"),
    [
        ({("O", 0): 1.0, ("O", 1): 20.0}, 20.0),
        ({("O", 0): 1.0}, 5.0),  # orders 1 has nothing
        ({("O", 0): 200.0, ("O", 1): 1.0}, 30.0),
        ({}, 30.0),
    ],
)
def test_stillness_is_watched_for_as_long_as_writers_paused(
    pauses: dict[tuple[str, int], float], seconds: float
) -> None:
    site = FenceSite(pauses=pauses)
    done = watched(site)
    assert site.clock.now_s == pytest.approx(1_000.0 + seconds, abs=1.1)
    assert (done.proof, site.asked_for_pauses) == (Proof.OBSERVED, 1)
    assert {one.evidence for one in done.fences[0].partitions} == {"stillness"}


@pytest.mark.parametrize(("end", "seconds"), [(2, 1.0), (1, 30.0)])
def test_what_was_still_before_the_fence_is_not_watched_a_second_time(end: int, seconds: float) -> None:
    """A topic that is compacted lets tombstones through; one that somebody wrote to since is watched anew."""
    site = FenceSite(pauses={("O", 0): 200.0, ("O", 1): 200.0})
    site.cluster.settings["orders"] = {"cleanup.policy": "compact"}
    seen = {("orders", 0): (2, 900.0), ("orders", 1): (end - 2, 900.0)}
    how = asked(FenceHow.SHUT, "orders", producers_stopped=True, ended_before=seen)
    done = fence(how, site.parts(), WHY)
    assert done.proof is Proof.OBSERVED
    assert site.clock.now_s == pytest.approx(1_000.0 + seconds, abs=1.1)
    assert min(one.quiet_ms for one in done.fences[0].partitions) == 30_000


def test_a_tombstone_that_came_since_begins_the_quiet_time_again() -> None:
    site = FenceSite(pauses={("O", 0): 200.0, ("O", 1): 200.0})
    site.cluster.settings["orders"] = {"cleanup.policy": "compact"}
    site.during_sleep = [lambda: site.cluster.write("orders", 1)]
    seen = {("orders", number): (2 - 2 * number, 900.0) for number in range(2)}
    how = asked(FenceHow.SHUT, "orders", producers_stopped=True, ended_before=seen)
    done = fence(how, site.parts(), WHY)
    assert [one.end for one in done.fences[0].partitions] == [2, 1]
    assert site.clock.now_s >= 1_030.0


def test_records_in_flight_begin_the_quiet_time_again() -> None:
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})
    site.during_sleep = [lambda: None] * 4 + [lambda: site.cluster.write("orders", 1)]
    done = watched(site)
    assert site.clock.now_s == pytest.approx(1_015.0, abs=1.1)
    assert [one.end for one in done.fences[0].partitions] == [2, 1]


def test_time_in_which_nothing_could_be_read_proves_nothing() -> None:
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})

    def goes() -> None:
        site.cluster.is_away = True

    def is_back_with_a_record_more() -> None:
        site.cluster.is_away = False
        site.cluster.write("orders", 1)

    site.during_sleep = [goes, *[lambda: None] * 15, is_back_with_a_record_more]
    done = watched(site)
    assert [one.end for one in done.fences[0].partitions] == [2, 1]
    assert site.clock.now_s >= 1_020.0, "still for ten seconds since the record was read"


# What a leader has taken -----------------------------------------------------------------------------


@WAYS
@pytest.mark.fault(9)
def test_a_record_that_followers_lack_is_no_proof_until_it_is_seen(how: FenceHow) -> None:
    """Its producer was acknowledged by the leader alone (acks=1); what stands still is the high watermark."""
    site = FenceSite()
    site.cluster.write("orders", 0)
    site.cluster.shown_up_to["orders", 0] = 2
    wanted = asked(how, "orders", producers_stopped=True, wait_s=60.0)
    with pytest.raises(
        UnsafeError, match="partition 0: its leader has 1 record from offset 2 on that its follo"
    ):
        fence(wanted, site.parts(), WHY)
    assert site.clock.now_s >= 1_060.0
    site.during_sleep = [lambda: None] * 3 + [site.cluster.shown_up_to.clear]
    done = fence(wanted, site.parts(), WHY)
    assert (done.proof, [one.end for one in done.fences[0].partitions]) == (Proof.PROVEN, [3, 0])


@pytest.mark.fault(9)
def test_below_the_least_replicas_nobody_waits() -> None:
    site = FenceSite()
    site.cluster.settings["orders"] = {"min.insync.replicas": "2"}
    site.cluster.write("orders", 0)
    site.cluster.shown_up_to["orders", 0] = 2
    site.cluster.in_sync = 1
    with pytest.raises(
        UnsafeError, match=r"not proved:\n.*before 2 replicas are in sync .*, and 1 are: bring"
    ):
        fence(asked(FenceHow.CLOSED, "orders"), site.parts(), WHY)
    assert site.clock.now_s < 1_001.0
    done = fence(asked(FenceHow.CLOSED, "orders", unproven="we must"), site.parts(), WHY)
    assert (done.proof, rows(site)[-1].override) == (Proof.UNPROVEN, "we must")
    site.cluster.in_sync = 2
    site.during_sleep = [lambda: None] * 9 + [site.cluster.shown_up_to.clear]
    assert fence(asked(FenceHow.CLOSED, "orders"), site.parts(), WHY).proof is Proof.PROVEN


def test_another_leader_has_to_show_it_and_two_readings_of_it_prove_it() -> None:
    site = FenceSite()
    before = frozenset(site.cluster.acls)

    def moves_to_one_that_lags() -> None:
        site.cluster.moved["orders", 0] = (2, 1)
        site.cluster.stale[2] = before

    site.during_sleep = [moves_to_one_that_lags, site.cluster.stale.clear]
    done = fence(asked(FenceHow.CLOSED, "orders"), site.parts(), WHY)
    assert (done.proof, done.fences[0].partitions[0].leader_epoch) == (Proof.PROVEN, 1)
    assert site.clock.now_s >= 1_002.9, "one second, one until it has the rules, one more"

    again = FenceSite()
    again.during_sleep = [lambda: again.cluster.moved.update({("orders", 0): (1, 1)})]
    fence(asked(FenceHow.CLOSED, "orders"), again.parts(), WHY)
    assert again.clock.now_s == pytest.approx(1_002.0, abs=0.1), "the same broker, another time"


def test_a_leader_that_does_not_tell_its_epoch_shows_nothing_but_stillness() -> None:
    site = FenceSite()
    site.cluster.moved["orders", 1] = (2, None)
    done = fence(asked(FenceHow.CLOSED, "orders"), site.parts(), WHY)
    assert [one.proof for one in done.fences[0].partitions] == ["proven", "observed"]
    assert site.clock.now_s == pytest.approx(1_020.0, abs=1.1)


def test_shut_is_proved_by_a_refusal_and_not_by_what_a_broker_tells_of_the_setting() -> None:
    site = FenceSite()
    site.cluster.takes_still = {("orders", 1)}
    shut = asked(FenceHow.SHUT, "orders", producers_stopped=True)
    with pytest.raises(
        PreconditionError, match=r"1 partitions take batches still, orders partition 1 the first"
    ):
        fence(shut, site.parts(), WHY)
    site.during_sleep = [site.cluster.takes_still.clear]
    done = fence(shut, site.parts(), WHY)
    assert (done.proof, {one.evidence for one in done.fences[0].partitions}) == (Proof.PROVEN, {"refusal"})


@pytest.mark.parametrize(("recorded", "own"), [({"orders": "1000"}, {"max.message.bytes": "1000"}), ({}, {})])
def test_a_fence_that_nobody_recorded_is_taken_over_and_lifted(
    recorded: dict[str, str | None], own: dict[str, str]
) -> None:
    site = FenceSite()
    site.cluster.settings["orders"] = {"max.message.bytes": "78"}
    parts = replace(site.parts(), recorded_limits=lambda: recorded)
    done = fence(asked(FenceHow.SHUT, "orders", producers_stopped=True), parts, WHY)
    assert done.fences[0].former == {"max.message.bytes": recorded.get("orders")}
    unfence("east", None, site.parts(), WHY)
    assert site.cluster.settings["orders"] == own


@pytest.mark.parametrize(
    ("keeps", "seconds", "expected"), [(True, 5.0, Proof.PROVEN), (False, 20.0, Proof.OBSERVED)]
)
def test_where_no_refusal_can_be_had_the_setting_counts_unless_zookeeper_tells_it(
    *, keeps: bool, seconds: float, expected: Proof
) -> None:
    site = FenceSite()
    site.cluster.may_write, site.cluster.keeps = False, keeps
    done = fence(asked(FenceHow.SHUT, "orders", producers_stopped=True), site.parts(), WHY)
    assert done.proof is expected
    assert site.clock.now_s == pytest.approx(1_000.0 + seconds, abs=1.1)


@pytest.mark.parametrize("is_compacted", [True, False])
def test_where_small_records_lie_a_refusal_proves_nothing(*, is_compacted: bool) -> None:
    site = FenceSite()
    if is_compacted:
        site.cluster.settings["orders"] = {"cleanup.policy": "compact,delete"}
    else:
        site.cluster.smallest["orders", 0] = 78
    done = fence(asked(FenceHow.SHUT, producers_stopped=True), site.parts(), WHY)
    assert proofs(done.fences) == [("orders", "observed"), ("users", "proven")]
    assert any("tombstones above all, pass max.message.bytes" in line for line in site.said)


def test_a_transaction_that_has_no_record_yet_is_waited_for_or_aborted_by_choice() -> None:
    """Only its coordinator knows of it: a request of it may wait in a leader, authorized."""
    site = FenceSite()
    site.cluster.coordinated_in = [
        CoordinatedTransaction("shop", "Ongoing", frozenset({("orders", 1)})),
        CoordinatedTransaction("other", "Ongoing", frozenset({("others", 0)})),
    ]
    with pytest.raises(UnsafeError, match="orders partition 1: a transaction is open from offset 0"):
        fence(asked(FenceHow.CLOSED, "orders", wait_s=5.0), site.parts(), WHY)
    done = fence(asked(FenceHow.CLOSED, "orders", abort_after_s=2.0), site.parts(), WHY)
    assert (done.proof, site.cluster.ended_by) == (Proof.PROVEN, ["shop"])


def test_a_fence_that_could_not_be_read_again_is_not_proved() -> None:
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})

    def goes() -> None:
        site.cluster.is_away = True

    site.during_sleep = [goes]
    with pytest.raises(ClusterUnavailableError):
        fence(asked(FenceHow.CLOSED, "orders", wait_s=40.0), site.parts(), WHY)
    assert proofs(rows(site)) == [("orders", "begun")]


def test_what_never_becomes_still_is_not_proved() -> None:
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})
    site.during_sleep = [lambda: site.cluster.write("orders", 1)] * 100
    with pytest.raises(UnsafeError, match="orders partition 1: records were appended behind the fence"):
        fence(asked(FenceHow.CLOSED, "orders", wait_s=40.0), site.parts(), WHY)
    assert proofs(rows(site)) == [("orders", "begun")]
    done = fence(asked(FenceHow.CLOSED, "orders", wait_s=40.0, unproven="we must"), site.parts(), WHY)
    assert (done.proof, rows(site)[-1].override) == (Proof.UNPROVEN, "we must")


def test_mirrors_that_write_are_no_writers() -> None:
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})
    parts = site.parts()
    site.during_sleep = [lambda: site.cluster.write("orders", 1, producer_id=42)] * 5
    known = type("Known", (), {"mirror_ids": lambda _, __: {42}, "require": lambda *_: None})()
    object.__setattr__(parts, "identities", known)
    fence(asked(FenceHow.CLOSED, "orders"), parts, WHY)
    assert site.clock.now_s == pytest.approx(1_001.0, abs=0.1)


def test_a_broker_that_lags_is_waited_for_and_one_that_stays_behind_is_told() -> None:
    site = FenceSite()
    before = frozenset(site.cluster.acls)
    site.cluster.stale[2] = before
    site.during_sleep = [lambda: site.cluster.stale.clear()]
    assert fence(asked(), site.parts(), WHY).proof is Proof.PROVEN
    site.cluster.stale[2] = frozenset(site.cluster.acls)
    with pytest.raises(PreconditionError, match="broker 2 still has rules that were deleted"):
        unfence("east", None, site.parts(), WHY)
    assert len(site.ledger.fences().at("east")) == 2
    site.cluster.stale.clear()
    assert unfence("east", None, site.parts(), WHY).operation_id is not None

    never = FenceSite(cluster=FencedCluster(stale={2: before}))
    with pytest.raises(PreconditionError, match="broker 2 does not have 2 of the rules"):
        fence(asked(), never.parts(), WHY)


def test_open_transactions_are_waited_for_and_aborted_by_choice_alone() -> None:
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})
    site.cluster.open_at["orders", 0] = 1
    with pytest.raises(UnsafeError, match="orders partition 0: a transaction is open from offset 1"):
        fence(asked(FenceHow.CLOSED, "orders", wait_s=60.0), site.parts(), WHY)
    site.cluster.coordinator = CoordinatedTransaction("shop", "Ongoing")
    began_s = site.clock.now_s
    done = fence(asked(FenceHow.CLOSED, "orders", abort_after_s=15.0), site.parts(), WHY)
    assert (done.proof, site.cluster.ended_by) == (Proof.PROVEN, ["shop"])
    assert site.clock.now_s - began_s >= 15.0
    told = "orders partition 0: transaction of producer 9 from offset 1 aborted, its producer shop fenced"
    assert told in site.said


@pytest.mark.parametrize(
    ("state", "age_ms", "ended_by", "told"),
    [
        ("CompleteAbort", 0, ["a marker"], "aborted, no coordinator waits for it"),
        ("PrepareCommit", 9_999_999, [], "is being ended by its coordinator"),
        (None, 1_300_000, ["a marker"], "aborted, no coordinator waits for it"),
        (None, 1_100_000, [], "too young to be sure"),
        (None, None, [], "too young to be sure"),
    ],
)
def test_a_marker_is_for_transactions_that_no_coordinator_waits_for(
    state: str | None, age_ms: int | None, ended_by: list[str], told: str
) -> None:
    """Else the producer would commit what is left of it without an error."""
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})
    site.cluster.open_at["orders", 0] = 1
    site.cluster.coordinator = None if state is None else CoordinatedTransaction("shop", state)
    site.cluster.last_timestamp_ms = None if age_ms is None else site.clock.now_ms() - age_ms
    wanted = asked(FenceHow.CLOSED, "orders", abort_after_s=0.0, wait_s=30.0, unproven="we must")
    done = fence(wanted, site.parts(), WHY)
    assert (site.cluster.ended_by, done.proof is Proof.PROVEN) == (ended_by, bool(ended_by))
    assert len([line for line in site.said if told in line]) == 1


def test_a_cluster_that_does_not_answer_is_unproven_by_word_alone() -> None:
    site = FenceSite()
    site.cluster.is_away = True
    with pytest.raises(
        ClusterUnavailableError, match="to continue without a proof, --accept unproven=REASON"
    ):
        fence(asked(), site.parts(), WHY)
    with pytest.raises(
        ClusterUnavailableError, match=r"apply the plan again; .* undo it .*mirror-ledger undo a1\)"
    ):
        fence(asked(), site.parts(), Why(operation_id="a1"))
    assert rows(site) == []
    done = fence(asked(unproven="no network", known_ids={"orders": "O"}), site.parts(), WHY)
    assert [(one.topic, one.topic_id, one.cluster_id) for one in done.fences] == [
        ("orders", "O", None),
        ("users", None, None),
    ]
    site.cluster.is_away = False
    assert fence(asked(), site.parts(), WHY).proof is Proof.PROVEN


def test_who_makes_no_fence_leaves_one_open_without_asking_the_cluster_and_lifts_it_so() -> None:
    site = FenceSite()
    site.cluster.is_away = True
    word = asked(unproven="it is dead", known_ids={"orders": "O"})
    left = leave_open(word, site.parts(), Why(operation_id="apply-1"))
    assert (left.operation_id, left.proof) == ("apply-1", Proof.UNPROVEN)
    assert left.words == "orders, users of east is not fenced: it is dead"
    assert [(one.topic, one.topic_id, one.is_made, one.override) for one in rows(site)] == [
        ("orders", "O", False, "it is dead"),
        ("users", None, False, "it is dead"),
    ]
    again = leave_open(word, site.parts(), Why(operation_id="apply-1"))
    assert (again.operation_id, again.proof, len(rows(site))) == (None, Proof.UNPROVEN, 2)
    assert [one.topic for one in unfence("east", None, site.parts(), WHY).lifted] == ["orders", "users"]
    assert site.parts().fences.at("east") == []


def test_what_was_made_is_not_lifted_while_the_cluster_is_away_and_stays_as_it_is() -> None:
    site = FenceSite()
    fence(asked(), site.parts(), WHY)
    site.cluster.is_away = True
    with pytest.raises(ClusterUnavailableError):
        unfence("east", None, site.parts(), WHY)
    left = leave_open(asked(unproven="it is dead"), site.parts(), Why(operation_id="apply-1"))
    assert (left.operation_id, left.proof) == (None, Proof.PROVEN)


def test_a_cluster_that_goes_away_keeps_what_was_made() -> None:
    site = FenceSite()

    def leave() -> None:
        site.cluster.is_away = True

    site.during_sleep = [leave]
    done = fence(asked(unproven="no network", wait_s=5.0), site.parts(), WHY)
    assert done.proof is Proof.UNPROVEN
    assert [one.denied for one in done.fences] == [("User:a",), ("User:b",)]


@pytest.mark.parametrize(
    ("how", "more", "message"),
    [
        (FenceHow.SHUT, {}, "--accept producers_stopped; nothing was changed"),
        (FenceHow.HOOK, {}, "its command \\(--hook\\); nothing was changed"),
    ],
)
def test_what_a_way_needs_is_asked_for(how: FenceHow, more: dict[str, object], message: str) -> None:
    site = FenceSite()
    with pytest.raises(UsageError, match=message):
        fence(asked(how, **more), site.parts(), WHY)
    with pytest.raises(UsageError, match="east has no topic none, or does not show it"):
        fence(asked(FenceHow.CLOSED, "orders", "none"), site.parts(), WHY)
    assert (rows(site), site.cluster.steps.number) == ([], 0)


def test_without_an_authorizer_and_where_rules_do_not_help_nothing_is_changed() -> None:
    site = FenceSite(cluster=FencedCluster(has_authorizer=False))
    with pytest.raises(PreconditionError, match=r"east has no authorizer.*nothing was changed or recorded"):
        fence(asked(), site.parts(), WHY)
    site.cluster.has_authorizer = True
    site.cluster.acls |= {allowing("User:*", "users"), allowing("User:mirror", "orders")}
    with pytest.raises(PreconditionError) as refused:
        fence(asked(), site.parts(), WHY)
    told = str(refused.value)
    assert told.startswith("orders, users of east cannot be closed; nothing was changed or recorded:")
    assert "User:* to write to users" in told
    assert "User:mirror is allowed to write to orders" in told
    assert (rows(site), site.cluster.steps.number) == ([], 0)


def test_another_cluster_behind_the_alias_is_left_alone() -> None:
    site = FenceSite()
    fence(asked(), site.parts(), WHY)
    claim = dict.fromkeys(
        (
            *("event", "host", "flow", "target_cluster", "target_cluster_id", "producer_id", "config_hash"),
            *("former_producer_id", "allocated_producer_id", "brokers", "shut_out"),
            *("source_metadata_offset", "target_metadata_offset"),
        )
    )
    claimed = {**claim, "event": "claimed", "source_cluster": "east", "source_cluster_id": "before"}
    site.ledger.claim("recorder:east", ["checkpoints"], claimed)
    steps = site.cluster.steps.number
    for act in (lambda: fence(asked(), site.parts(), WHY), lambda: unfence("east", None, site.parts(), WHY)):
        with pytest.raises(PreconditionError, match="another cluster answers behind east"):
            act()
    assert site.cluster.steps.number == steps


def test_a_topic_is_fenced_in_one_way_at_a_time() -> None:
    site = FenceSite()
    fence(asked(), site.parts(), WHY)
    with pytest.raises(PreconditionError, match=r"orders of east is fenced \(closed\) already, by anna"):
        fence(asked(FenceHow.SHUT, producers_stopped=True), site.parts(), WHY)
    unfence("east", ["orders"], site.parts(), WHY)
    assert (
        fence(asked(FenceHow.SHUT, "orders", producers_stopped=True), site.parts(), WHY).proof is Proof.PROVEN
    )
    assert site.cluster.acls == {allowing("User:a"), allowing("User:b", "users"), denial("users", "User:b")}


def test_a_setting_that_somebody_has_changed_since_is_left() -> None:
    site = FenceSite()
    fence(asked(FenceHow.SHUT, producers_stopped=True), site.parts(), WHY)
    site.cluster.settings["orders"] = {SETTING: "900"}
    users = site.cluster.described["users"]
    site.cluster.described["users"] = TopicDescription("users", "U2", users.partitions, 2, False)
    lifted = unfence("east", None, site.parts(), WHY).lifted
    assert [one.restored for one in lifted] == [{}, {}]
    assert site.cluster.settings["orders"] == {SETTING: "900"}
    assert any("was changed since, to 900: it is left so" in line for line in site.said)


def test_a_hook_is_run_once_and_its_result_is_watched() -> None:
    site = FenceSite()
    site.hooks.results = [
        HookResult(3, "no such group\n"),
        HookResult(0, "stopped"),
        HookResult(0, "started"),
    ]
    with pytest.raises(PreconditionError, match="the hook stop-them ended with 3: no such group"):
        fence(asked(FenceHow.HOOK, hook=HOOK), site.parts(), WHY)
    assert [(one.proof, one.hook and one.hook.exit_code) for one in rows(site)[-2:]] == [("begun", 3)] * 2
    done = fence(asked(FenceHow.HOOK, hook=HOOK), site.parts(), WHY)
    assert (done.proof, done.fences[0].hook and done.fences[0].hook.output) == (Proof.OBSERVED, "stopped")
    assert fence(asked(FenceHow.HOOK, hook=HOOK), site.parts(), WHY).operation_id is None
    assert [one.environment["MIRROR_LEDGER_TOPICS"] for one in site.hooks.ran] == ["orders,users"] * 2
    lifted = unfence("east", None, site.parts(), WHY, HOOK).lifted
    assert [one.hook and one.hook.output for one in lifted] == ["started"] * 2
    assert site.hooks.ran[-1].environment["MIRROR_LEDGER_ACT"] == "unfence"


def test_a_hook_that_ends_nothing_leaves_the_fence() -> None:
    site = FenceSite()
    site.hooks.results = [HookResult(0, ""), HookResult(None, "")]
    fence(asked(FenceHow.HOOK, hook=HOOK), site.parts(), WHY)
    with pytest.raises(PreconditionError, match="was ended when its time was over: it printed nothing"):
        unfence("east", None, site.parts(), WHY, HOOK)
    assert len(site.ledger.fences().at("east")) == 2


def test_there_is_nothing_to_lift_twice() -> None:
    site = FenceSite()
    fence(asked(), site.parts(), WHY)
    assert unfence("east", ["none"], site.parts(), WHY).operation_id is None
    assert [one.topic for one in unfence("east", None, site.parts(), WHY).lifted] == ["orders", "users"]
    assert unfence("east", None, site.parts(), WHY).operation_id is None


# Whether it stands ----------------------------------------------------------------------------------


def standing(site: FenceSite) -> tuple[str, ...]:
    return doubts([one.fence for one in site.parts().fences.at("east")], site.parts())


@WAYS
def test_a_fence_stands_until_something_of_it_is_not_so_any_more(how: FenceHow) -> None:
    site = FenceSite()
    fence(asked(how, producers_stopped=True), site.parts(), WHY)
    site.cluster.write("orders", 0, is_control=True)
    steps = site.cluster.steps.number
    assert standing(site) == ()
    site.cluster.write("orders", 0)
    site.cluster.shown_up_to["orders", 0] = 3
    assert standing(site) == (
        "orders partition 0 of east: its leader has records from offset 3 on that no reader sees yet",
    )
    site.cluster.shown_up_to.clear()
    [late] = standing(site)
    assert late.endswith("a record was written at offset 3 behind the fence, whose end is 2")
    site.cluster.acls = {allowing("User:a"), allowing("User:b", "users")}
    site.cluster.settings["orders"] = {}
    told = "does not have 2 of the rules" if how is FenceHow.CLOSED else "2 partitions take batches still"
    assert [told in one for one in standing(site)] == [True, False]
    described = site.cluster.described
    described["orders"] = TopicDescription("orders", "O", 3, 2, False)
    described["users"] = TopicDescription("users", "U2", 1, 2, False)
    assert standing(site) == (
        "orders of east has 3 partitions, and had 2 when it was fenced",
        "users of east was created again since it was fenced",
    )
    assert site.cluster.steps.number == steps, "nothing was changed"


def test_who_was_allowed_since_may_write() -> None:
    site = FenceSite()
    fence(asked(), site.parts(), WHY)
    site.cluster.acls.add(allowing("User:c", "users"))
    assert standing(site) == ("User:c may write to users of east by now",)
    site.cluster.acls.add(allowing("User:*", "users"))
    [refused] = standing(site)
    assert "a rule allows User:* to write to users" in refused


def test_copies_that_a_mirror_writes_just_now_are_no_doubt() -> None:
    site = FenceSite()
    fence(asked(), site.parts(), WHY)
    site.cluster.write("orders", 0, is_control=True)
    site.cluster.shown_up_to["orders", 0] = 2
    site.during_sleep = [site.cluster.shown_up_to.clear]
    assert standing(site) == ()


def test_a_fence_that_is_open_claims_nothing() -> None:
    site = FenceSite()
    leave_open(asked(unproven="it is dead"), site.parts(), WHY)
    site.cluster.is_away = True
    assert standing(site) == ()


# What needs attention -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proof", "is_open"),
    [
        (Proof.BEGUN, True),
        (Proof.UNPROVEN, True),
        ("what a later program knows", True),
        (Proof.OBSERVED, False),
        (Proof.PROVEN, False),
    ],
)
def test_a_fence_that_is_not_proved_needs_attention(proof: str, *, is_open: bool) -> None:
    site = FenceSite()
    for topic in ("orders", "users"):
        row = Fence(
            cluster="east", cluster_id="E", topic=topic, topic_id="T", how=FenceHow.CLOSED, proof=proof
        )
        site.record(row)
    found = fences_needing_attention(site.ledger.rows("operations"), ["east"])
    assert [one.state for one in found] == [proof] * 2 * is_open
    assert fences_needing_attention(site.ledger.rows("operations"), ["west"]) == []


@pytest.mark.parametrize("how", list(FenceHow))
def test_the_commands_that_are_advised_for_a_fence_without_a_proof_are_complete(how: FenceHow) -> None:
    """As printed they are typed, but for the reason; `fence` proves what is there in the way that it was made."""
    site = FenceSite()
    site.cluster.open_at["orders", 0] = 1
    site.hooks.results = [HookResult(0, "stopped")]
    wanted = asked(how, "orders", hook=HOOK, producers_stopped=True, wait_s=10.0)
    with pytest.raises(UnsafeError):
        fence(wanted, site.parts(), WHY)
    [attention] = fences_needing_attention(site.ledger.rows("operations"), ["east"])
    proves, lifts = (
        shlex.split(one.removesuffix(" proves it").removesuffix(" lifts it"))
        for one in attention.next.split(", ")
    )
    assert proves[:2] == ["mirror-ledger", "fence"]
    given = commands.fence.make_context("fence", proves[2:]).params
    assert (given["cluster"], given["topics"], given["how"], given["reason"]) == (
        "east",
        ("orders",),
        how,
        "WHY",
    )
    assert given["producers_stopped"] == (how is FenceHow.SHUT)
    assert (given["hook"] and tuple(shlex.split(given["hook"]))) == (
        HOOK.command if how is FenceHow.HOOK else None
    )
    lifted = commands.unfence.make_context("unfence", lifts[2:]).params
    assert (lifted["cluster"], lifted["topics"], lifted["reason"]) == ("east", ("orders",), "WHY")
