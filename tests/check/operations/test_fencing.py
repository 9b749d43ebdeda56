"""Fences in steps: what is recorded and made in which order, ended anywhere and continued, proved, given up, lifted."""

from collections.abc import Sequence

import pytest

from ledger.domain.fences.closing import denial
from ledger.domain.fences.proof import Proof
from ledger.domain.fences.receipts import Fence, FenceHow
from ledger.errors import ClusterUnavailableError, PreconditionError, UnsafeError, UsageError
from ledger.operations.fencing.fencing import fence, leave_open
from ledger.operations.fencing.lifting import unfence
from ledger.operations.fencing.measures import SETTING
from ledger.operations.fencing.report import fences_needing_attention
from ledger.ports.clusters import TopicDescription
from ledger.ports.fencing import CoordinatedTransaction
from ledger.ports.hooks import HookCommand, HookResult
from tests.support.fenced_clusters import (
    EndedError,
    FencedCluster,
    FenceSite,
    Steps,
    allowing,
    asked,
    lifting,
)

OURS = {denial("orders", "User:a"), denial("users", "User:b")}
HOOK = HookCommand(("stop-them", "--all"), 5.0)
WAYS = pytest.mark.parametrize("how", [FenceHow.CLOSED, FenceHow.SHUT])


def rows(site: FenceSite) -> list[Fence]:
    return [Fence.of_row(row) for row in site.ledger.rows("operations") if row["kind"] == "fence"]


def proofs(fences: Sequence[Fence]) -> list[tuple[str, str]]:
    return [(one.topic, one.proof) for one in fences]


def test_a_proof_takes_as_long_as_writers_ever_paused() -> None:
    site = FenceSite()
    done = fence(asked(), site.parts())
    assert proofs(rows(site)) == [
        *(("orders", "begun"), ("users", "begun")),
        *(("orders", "proven"), ("users", "proven")),
    ]
    assert site.clock.now_s == pytest.approx(1_020.0, abs=1.1), "orders 1 paused for 20 s"
    assert [(one.partition, one.end, one.quiet_ms) for one in done.fences[0].partitions] == [
        (0, 2, 10_000),
        (1, 0, 20_000),
    ]
    assert (done.proof, {row["operation_id"] for row in site.ledger.rows("operations")}) == (
        Proof.PROVEN,
        {done.operation_id},
    )
    assert site.cluster.acls == {allowing("User:a"), allowing("User:b", "users"), *OURS}


def test_the_rows_of_an_apply_share_its_operation() -> None:
    site = FenceSite()
    assert fence(asked(), site.parts(), operation_id="apply-1").operation_id == "apply-1"
    assert unfence(lifting(), site.parts(), operation_id="apply-2").operation_id == "apply-2"
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
                fence(asked(how, producers_stopped=True), site.parts())
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
                unfence(lifting(), site.parts())
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


def test_what_is_proved_is_proved_again_only_when_something_has_changed() -> None:
    site = FenceSite()
    first = fence(asked(), site.parts())
    count = len(rows(site))
    site.cluster.write("orders", 0, is_control=True)
    again = fence(asked(), site.parts())
    assert (again.operation_id, len(rows(site)), again.fences) == (None, count, first.fences)
    site.cluster.acls -= {denial("users", "User:b")}
    assert fence(asked(), site.parts()).operation_id is not None
    assert denial("users", "User:b") in site.cluster.acls
    site.cluster.write("orders", 1)
    ends = fence(asked(), site.parts()).fences[0].partitions
    assert [one.end for one in ends] == [3, 1]


def test_what_was_deleted_behind_a_fence_may_have_been_written_by_anybody() -> None:
    site = FenceSite()
    fence(asked(), site.parts())
    count = len(rows(site))
    site.cluster.write("orders", 0)
    site.cluster.write("orders", 0)
    site.cluster.starts["orders", 0] = 3
    assert fence(asked(), site.parts()).operation_id is not None
    assert len(rows(site)) > count, "it is proved again"


def test_a_new_principal_is_denied_by_the_next_fence() -> None:
    site = FenceSite()
    fence(asked(), site.parts())
    site.cluster.acls.add(allowing("User:c"))
    assert fence(asked(), site.parts()).fences[0].denied == ("User:a", "User:c")
    unfence(lifting(), site.parts())
    assert site.cluster.acls == {allowing("User:a"), allowing("User:b", "users"), allowing("User:c")}


def test_records_in_flight_begin_the_quiet_time_again() -> None:
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})
    site.during_sleep = [lambda: None] * 4 + [lambda: site.cluster.write("orders", 1)]
    done = fence(asked(FenceHow.CLOSED, "orders"), site.parts())
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
    done = fence(asked(FenceHow.CLOSED, "orders"), site.parts())
    assert [one.end for one in done.fences[0].partitions] == [2, 1]
    assert site.clock.now_s >= 1_020.0, "still for ten seconds since the record was read"


def test_a_fence_that_could_not_be_read_again_is_not_proved() -> None:
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})

    def goes() -> None:
        site.cluster.is_away = True

    site.during_sleep = [goes]
    with pytest.raises(ClusterUnavailableError):
        fence(asked(FenceHow.CLOSED, "orders", wait_s=40.0), site.parts())
    assert proofs(rows(site)) == [("orders", "begun")]


def test_what_never_becomes_still_is_not_proved() -> None:
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})
    site.during_sleep = [lambda: site.cluster.write("orders", 1)] * 100
    with pytest.raises(UnsafeError, match="orders partition 1: records were appended behind the fence"):
        fence(asked(FenceHow.CLOSED, "orders", wait_s=40.0), site.parts())
    assert proofs(rows(site)) == [("orders", "begun")]
    done = fence(asked(FenceHow.CLOSED, "orders", wait_s=40.0, unproven="we must"), site.parts())
    assert (done.proof, rows(site)[-1].override) == (Proof.UNPROVEN, "we must")


def test_mirrors_that_write_are_no_writers() -> None:
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})
    parts = site.parts()
    site.during_sleep = [lambda: site.cluster.write("orders", 1, producer_id=42)] * 5
    known = type("Known", (), {"mirror_ids": lambda _, __: {42}, "require": lambda *_: None})()
    object.__setattr__(parts, "identities", known)
    fence(asked(FenceHow.CLOSED, "orders"), parts)
    assert site.clock.now_s == pytest.approx(1_010.0, abs=1.1)


def test_a_broker_that_lags_is_waited_for_and_one_that_stays_behind_is_told() -> None:
    site = FenceSite()
    before = frozenset(site.cluster.acls)
    site.cluster.stale[2] = before
    site.during_sleep = [lambda: site.cluster.stale.clear()]
    assert fence(asked(), site.parts()).proof is Proof.PROVEN
    site.cluster.stale[2] = frozenset(site.cluster.acls)
    with pytest.raises(PreconditionError, match="broker 2 still has rules that were deleted"):
        unfence(lifting(), site.parts())
    assert len(site.ledger.fences().at("east")) == 2
    site.cluster.stale.clear()
    assert unfence(lifting(), site.parts()).operation_id is not None

    never = FenceSite(cluster=FencedCluster(stale={2: before}))
    with pytest.raises(PreconditionError, match="broker 2 does not have 2 of the rules"):
        fence(asked(), never.parts())


def test_open_transactions_are_waited_for_and_aborted_by_choice_alone() -> None:
    site = FenceSite(pauses={("O", 0): 10.0, ("O", 1): 10.0})
    site.cluster.open_at["orders", 0] = 1
    with pytest.raises(UnsafeError, match="orders partition 0: a transaction is open from offset 1"):
        fence(asked(FenceHow.CLOSED, "orders", wait_s=60.0), site.parts())
    site.cluster.coordinator = CoordinatedTransaction("shop", "Ongoing")
    began_s = site.clock.now_s
    done = fence(asked(FenceHow.CLOSED, "orders", abort_after_s=15.0), site.parts())
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
    done = fence(wanted, site.parts())
    assert (site.cluster.ended_by, done.proof is Proof.PROVEN) == (ended_by, bool(ended_by))
    assert len([line for line in site.said if told in line]) == 1


@pytest.mark.parametrize(
    ("pauses", "expected"), [({}, Proof.OBSERVED), ({("O", 0): 200.0, ("O", 1): 1.0}, Proof.OBSERVED)]
)
def test_what_is_written_more_rarely_than_can_be_waited_is_observed(
    pauses: dict[tuple[str, int], float], expected: Proof
) -> None:
    site = FenceSite(pauses=pauses)
    assert fence(asked(FenceHow.CLOSED, "orders"), site.parts()).proof is expected
    assert site.clock.now_s == pytest.approx(1_120.0, abs=1.1)


def test_a_cluster_that_does_not_answer_is_unproven_by_word_alone() -> None:
    site = FenceSite()
    site.cluster.is_away = True
    with pytest.raises(ClusterUnavailableError, match="to continue without a proof: --unproven REASON"):
        fence(asked(), site.parts())
    assert rows(site) == []
    done = fence(asked(unproven="no network", known_ids={"orders": "O"}), site.parts())
    assert [(one.topic, one.topic_id, one.cluster_id) for one in done.fences] == [
        ("orders", "O", None),
        ("users", None, None),
    ]
    site.cluster.is_away = False
    assert fence(asked(), site.parts()).proof is Proof.PROVEN


def test_who_makes_no_fence_leaves_one_open_without_asking_the_cluster_and_lifts_it_so() -> None:
    site = FenceSite()
    site.cluster.is_away = True
    word = asked(unproven="it is dead", known_ids={"orders": "O"})
    left = leave_open(word, site.parts(), operation_id="apply-1")
    assert (left.operation_id, left.proof) == ("apply-1", Proof.UNPROVEN)
    assert left.words == "orders, users of east is not fenced: it is dead"
    assert [(one.topic, one.topic_id, one.is_made, one.override) for one in rows(site)] == [
        ("orders", "O", False, "it is dead"),
        ("users", None, False, "it is dead"),
    ]
    again = leave_open(word, site.parts(), operation_id="apply-1")
    assert (again.operation_id, again.proof, len(rows(site))) == (None, Proof.UNPROVEN, 2)
    assert [one.topic for one in unfence(lifting(), site.parts()).lifted] == ["orders", "users"]
    assert site.parts().fences.at("east") == []


def test_what_was_made_is_not_lifted_while_the_cluster_is_away_and_stays_as_it_is() -> None:
    site = FenceSite()
    fence(asked(), site.parts())
    site.cluster.is_away = True
    with pytest.raises(ClusterUnavailableError):
        unfence(lifting(), site.parts())
    left = leave_open(asked(unproven="it is dead"), site.parts(), operation_id="apply-1")
    assert (left.operation_id, left.proof) == (None, Proof.PROVEN)


def test_a_cluster_that_goes_away_keeps_what_was_made() -> None:
    site = FenceSite()

    def leave() -> None:
        site.cluster.is_away = True

    site.during_sleep = [leave]
    done = fence(asked(unproven="no network", wait_s=5.0), site.parts())
    assert done.proof is Proof.UNPROVEN
    assert [one.denied for one in done.fences] == [("User:a",), ("User:b",)]


@pytest.mark.parametrize(
    ("how", "more", "message"),
    [
        (FenceHow.SHUT, {}, "--producers-stopped; nothing was changed"),
        (FenceHow.HOOK, {}, "--hook COMMAND; nothing was changed"),
    ],
)
def test_what_a_way_needs_is_asked_for(how: FenceHow, more: dict[str, object], message: str) -> None:
    site = FenceSite()
    with pytest.raises(UsageError, match=message):
        fence(asked(how, **more), site.parts())
    with pytest.raises(UsageError, match="east has no topic none, or does not show it"):
        fence(asked(FenceHow.CLOSED, "orders", "none"), site.parts())
    assert (rows(site), site.cluster.steps.number) == ([], 0)


def test_without_an_authorizer_and_where_rules_do_not_help_nothing_is_changed() -> None:
    site = FenceSite(cluster=FencedCluster(has_authorizer=False))
    with pytest.raises(PreconditionError, match=r"east has no authorizer.*nothing was changed or recorded"):
        fence(asked(), site.parts())
    site.cluster.has_authorizer = True
    site.cluster.acls |= {allowing("User:*", "users"), allowing("User:mirror", "orders")}
    with pytest.raises(PreconditionError) as refused:
        fence(asked(), site.parts())
    told = str(refused.value)
    assert told.startswith("orders, users of east cannot be closed; nothing was changed or recorded:")
    assert "User:* to write to users" in told
    assert "User:mirror is allowed to write to orders" in told
    assert (rows(site), site.cluster.steps.number) == ([], 0)


def test_another_cluster_behind_the_alias_is_left_alone() -> None:
    site = FenceSite()
    fence(asked(), site.parts())
    claim = dict.fromkeys(
        (
            *("event", "host", "flow", "target_cluster", "target_cluster_id", "producer_id", "config_hash"),
            *("former_producer_id", "source_metadata_offset", "target_metadata_offset", "shut_out"),
        )
    )
    claimed = {**claim, "event": "claimed", "source_cluster": "east", "source_cluster_id": "before"}
    site.ledger.claim("recorder:east", ["checkpoints"], claimed)
    steps = site.cluster.steps.number
    for act in (lambda: fence(asked(), site.parts()), lambda: unfence(lifting(), site.parts())):
        with pytest.raises(PreconditionError, match="another cluster answers behind east"):
            act()
    assert site.cluster.steps.number == steps


def test_a_topic_is_fenced_in_one_way_at_a_time() -> None:
    site = FenceSite()
    fence(asked(), site.parts())
    with pytest.raises(PreconditionError, match="orders of east is fenced by --how closed already, by anna"):
        fence(asked(FenceHow.SHUT, producers_stopped=True), site.parts())
    unfence(lifting("orders"), site.parts())
    assert fence(asked(FenceHow.SHUT, "orders", producers_stopped=True), site.parts()).proof is Proof.PROVEN
    assert site.cluster.acls == {allowing("User:a"), allowing("User:b", "users"), denial("users", "User:b")}


def test_a_setting_that_somebody_has_changed_since_is_left() -> None:
    site = FenceSite()
    fence(asked(FenceHow.SHUT, producers_stopped=True), site.parts())
    site.cluster.settings["orders"] = {SETTING: "900"}
    users = site.cluster.described["users"]
    site.cluster.described["users"] = TopicDescription("users", "U2", users.partitions, 2, False)
    lifted = unfence(lifting(), site.parts()).lifted
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
        fence(asked(FenceHow.HOOK, hook=HOOK), site.parts())
    assert [(one.proof, one.hook and one.hook.exit_code) for one in rows(site)[-2:]] == [("begun", 3)] * 2
    done = fence(asked(FenceHow.HOOK, hook=HOOK), site.parts())
    assert (done.proof, done.fences[0].hook and done.fences[0].hook.output) == (Proof.OBSERVED, "stopped")
    assert fence(asked(FenceHow.HOOK, hook=HOOK), site.parts()).operation_id is None
    assert [one.environment["MIRROR_LEDGER_TOPICS"] for one in site.hooks.ran] == ["orders,users"] * 2
    lifted = unfence(lifting(hook=HOOK), site.parts()).lifted
    assert [one.hook and one.hook.output for one in lifted] == ["started"] * 2
    assert site.hooks.ran[-1].environment["MIRROR_LEDGER_ACT"] == "unfence"


def test_a_hook_that_ends_nothing_leaves_the_fence() -> None:
    site = FenceSite()
    site.hooks.results = [HookResult(0, ""), HookResult(None, "")]
    fence(asked(FenceHow.HOOK, hook=HOOK), site.parts())
    with pytest.raises(PreconditionError, match="was ended when its time was over: it printed nothing"):
        unfence(lifting(hook=HOOK), site.parts())
    assert len(site.ledger.fences().at("east")) == 2


def test_there_is_nothing_to_lift_twice() -> None:
    site = FenceSite()
    fence(asked(), site.parts())
    assert unfence(lifting("none"), site.parts()).operation_id is None
    assert [one.topic for one in unfence(lifting(), site.parts()).lifted] == ["orders", "users"]
    assert unfence(lifting(), site.parts()).operation_id is None


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
