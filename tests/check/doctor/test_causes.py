"""One cause is one row, which counts the checks that could not be made because of it."""

from ledger.doctor.checks import Check, Verdict
from ledger.doctor.results import (
    CheckResult,
    NotMade,
    Unmeasured,
    failed,
    is_safe,
    one_row_for_each_cause,
    sentence,
    unknown,
)
from ledger.errors import Trouble

EAST, WEST, FLOW = "cluster east", "cluster west", "flow f"
REFUSED = Unmeasured("b:1 refused", Trouble.REFUSED, EAST)
FINE = CheckResult("machine", Check.JAVA, Verdict.OK, "17")


def shape(results: list[CheckResult]) -> list[tuple[str, Check, Verdict, int]]:
    return [(f.subject, f.check, f.verdict, len(f.not_made)) for f in one_row_for_each_cause(results)]


def test_what_failed_stands_for_what_is_unknown_for_the_same_cause() -> None:
    early = unknown(EAST, Check.CLUSTER_IDENTITY, REFUSED)
    late = unknown(FLOW, Check.SELECTED_TOPICS, Unmeasured("another text", Trouble.REFUSED, EAST))
    root = failed(EAST, Check.BOOTSTRAP_ADDRESS, REFUSED)
    assert shape([FINE, early, root, late]) == [
        ("machine", Check.JAVA, Verdict.OK, 0),
        (EAST, Check.BOOTSTRAP_ADDRESS, Verdict.FAILED, 2),
    ]
    (_, row) = one_row_for_each_cause([FINE, early, root, late])
    assert row.not_made == (NotMade(EAST, Check.CLUSTER_IDENTITY), NotMade(FLOW, Check.SELECTED_TOPICS))


def test_the_first_stands_where_none_failed_and_nothing_becomes_safe() -> None:
    denied = Unmeasured("may not describe brokers", Trouble.NOT_ALLOWED, WEST, "kafka-acls.sh --add")
    found = [unknown(WEST, Check.PRODUCER_STATE, denied), unknown(FLOW, Check.BATCH_SIZE, denied)]
    assert shape(found) == [(WEST, Check.PRODUCER_STATE, Verdict.UNKNOWN, 1)]
    assert one_row_for_each_cause(found)[0].advice == "kafka-acls.sh --add"
    assert not is_safe(one_row_for_each_cause(found), strict=False)


def test_other_places_other_troubles_and_other_permissions_are_other_causes() -> None:
    others = [
        Unmeasured("b:1 refused", Trouble.REFUSED, WEST),
        Unmeasured("b:1 refused", Trouble.NO_ANSWER, EAST),
        Unmeasured("may not do this", Trouble.NOT_ALLOWED, EAST),
        Unmeasured("may not do that", Trouble.NOT_ALLOWED, EAST),
        Unmeasured("this", None, EAST),
        Unmeasured("that", None, EAST),
    ]
    found = [unknown(FLOW, Check.BATCH_SIZE, why) for why in [REFUSED, *others]]
    assert len(one_row_for_each_cause(found)) == len(found)


def test_a_secret_that_two_clusters_lack_is_one_row() -> None:
    found = [
        failed(at, Check.BOOTSTRAP_ADDRESS, Unmeasured("X is not set", Trouble.SECRET, at))
        for at in (EAST, WEST)
    ]
    assert shape(found) == [(EAST, Check.BOOTSTRAP_ADDRESS, Verdict.FAILED, 1)]


def test_the_sentence_counts_by_subject() -> None:
    not_made = [NotMade(EAST, check) for check in list(Check)[:12]]
    assert sentence([]) == ""
    assert sentence(not_made[:1]) == "1 other check of cluster east could not be made"
    of_flow = [NotMade(FLOW, check) for check in list(Check)[:7]]
    assert sentence(not_made + of_flow) == (
        "12 other checks of cluster east and 7 of flow f could not be made"
    )
    assert sentence([*not_made, NotMade("ledger", Check.LEDGER_DISK), *of_flow]) == (
        "12 other checks of cluster east, 1 of the ledger and 7 of flow f could not be made"
    )
