"""Names and selection of topics, and their ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InvalidValueError
from ledger.facts.syncs import topic_id_bytes, topic_id_text
from ledger.topics.naming import (
    NamePatterns,
    NamingKind,
    RenameRule,
    SelectionRefusal,
    TopicNaming,
    TopicSelection,
    name_conflicts,
    own_targets,
)

IDENTITY = TopicNaming(NamingKind.IDENTITY)
PREFIX = TopicNaming(NamingKind.PREFIX, "east")
names = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True)


@given(names)
def test_naming_goes_there_and_back(topic: str) -> None:
    for naming in (IDENTITY, PREFIX):
        assert naming.source_name(naming.target_name(topic)) == topic


@pytest.mark.parametrize("foreign", ["orders", "eastorders", "west.orders", "east."])
def test_names_that_a_prefix_cannot_have_made(foreign: str) -> None:
    assert PREFIX.source_name(foreign) is None


@pytest.mark.parametrize(("kind", "prefix"), [(NamingKind.PREFIX, ""), (NamingKind.IDENTITY, "east")])
def test_a_prefix_belongs_to_prefix_naming(kind: NamingKind, prefix: str) -> None:
    with pytest.raises(InvalidValueError):
        TopicNaming(kind, prefix)


# Renaming --------------------------------------------------------------------------------------

REPLICA = RenameRule(r"^(.*)_REPLICA$", r"\1")


def renaming(*rules: RenameRule) -> TopicNaming:
    return TopicNaming(NamingKind.RENAME, rules=rules)


@pytest.mark.parametrize(
    ("match", "to", "source", "target"),
    [
        (r"^(.*)_REPLICA$", r"\1", "orders_REPLICA", "orders"),
        (r"eu\.(.*)", r"\1.eu", "eu.orders", "orders.eu"),
        (r"([a-z]+)-([0-9]+)", r"\2-\1", "orders-7", "7-orders"),
        (r"(.*)", r"\g<1>0", "orders", "orders0"),
        (r"(\w+)\.x", r"\1-\1", "a.x", "a-a"),
        ("orders", "bestellungen", "orders", "bestellungen"),
    ],
)
def test_a_rule_renames_there_and_back(match: str, to: str, source: str, target: str) -> None:
    naming = renaming(RenameRule(match, to))
    assert naming.names(source)
    assert naming.target_name(source) == target
    assert naming.source_name(target) == source


def test_a_rule_matches_whole_names_only() -> None:
    naming = renaming(REPLICA)
    assert not naming.names("orders_REPLICA_2")
    with pytest.raises(InvalidValueError, match="no rename rule matches 'orders'; it has no target name"):
        naming.target_name("orders")


def test_the_first_rule_that_matches_counts_in_both_directions() -> None:
    naming = renaming(RenameRule("special_REPLICA", "other"), REPLICA)
    assert naming.target_name("special_REPLICA") == "other"
    assert naming.source_name("special") is None, "the first rule takes special_REPLICA"
    assert naming.source_name("plain") == "plain_REPLICA"


@pytest.mark.parametrize(
    ("match", "to"), [(r"(a|b).*", r"\1"), ("a+(.*)", r"\1"), (r"(x)(.*)", r"\2"), (r"((a)b)", r"\1")]
)
def test_where_a_rule_does_not_lead_back_nothing_is_guessed(match: str, to: str) -> None:
    assert renaming(RenameRule(match, to)).source_name("a") is None


@pytest.mark.parametrize(("match", "to"), [("(.*)", r"\2"), ("(.*)", r"\g<name>"), ("(", "x")])
def test_a_rule_that_cannot_work_is_refused(match: str, to: str) -> None:
    with pytest.raises(InvalidValueError, match="cannot be renamed"):
        RenameRule(match, to)


def test_rules_belong_to_rename_naming() -> None:
    for kind, rules in ((NamingKind.RENAME, ()), (NamingKind.IDENTITY, (REPLICA,))):
        with pytest.raises(InvalidValueError, match="rules belong to rename naming"):
            TopicNaming(kind, rules=rules)


def test_no_two_topics_get_one_name() -> None:
    naming = renaming(RenameRule(r"(.*)[-_].*", r"\1"))
    found = name_conflicts(naming, ["a_1", "a-2", "b_1"], same_cluster=False)
    assert found == dict.fromkeys(["a-2", "a_1"], "a-2 and a_1 would all be copied to a")


def test_a_topic_is_never_copied_onto_itself() -> None:
    naming = renaming(RenameRule(r"(.*)", r"\1"))
    assert name_conflicts(naming, ["a"], same_cluster=True) == {"a": "a would be copied onto itself"}
    assert name_conflicts(naming, ["a"], same_cluster=False) == {}


@pytest.mark.parametrize(
    ("to", "fine"), [("x" * 249, True), ("x" * 250, False), ("a b", False), (".", False)]
)
def test_target_names_are_topic_names(to: str, fine: bool) -> None:
    found = name_conflicts(renaming(RenameRule("t", to)), ["t"], same_cluster=False)
    assert (found == {}) is fine
    assert fine or "a topic name has 1 to 249 letters" in found["t"]


def test_a_name_that_gets_too_long_by_its_prefix() -> None:
    names = {length: "x" * length for length in (244, 245)}
    found = name_conflicts(PREFIX, names.values(), same_cluster=False)
    assert found.keys() == {names[245]}


def test_a_flow_does_not_copy_its_own_copies() -> None:
    copying = renaming(RenameRule(r"(.*)", r"copy-\1"))
    assert own_targets(copying, ["a", "copy-a", "copy-copy-a", "b"]) == {"copy-a", "copy-copy-a"}


# Selection -------------------------------------------------------------------------------------

SELECTION = TopicSelection(
    ("orders.*", "__.*", "west.*", "mm2-.*", "named\\.heartbeats", ".*(internal|heartbeats)"),
    exclude=("orders-test",),
    mirrored_prefixes=("west",),
    let_in=("__audit", "west[.]invoices", "__consumer_offsets", "let-in"),
)


@pytest.mark.parametrize(
    ("topic", "refusal"),
    [
        ("orders", None),
        ("orders-2", None),
        ("western", None),
        ("old-orders", SelectionRefusal.NOT_INCLUDED),
        ("orders.salvaged", SelectionRefusal.SALVAGED),
        ("old-orders.salvaged", SelectionRefusal.NOT_INCLUDED),
        ("orders-test", SelectionRefusal.EXCLUDED),
        ("orders-tests", None),
        ("west.orders", SelectionRefusal.MIRRORED_BACK),
        ("__consumer_offsets", SelectionRefusal.INTERNAL),
        ("__remote_log_metadata", SelectionRefusal.INTERNAL),
        ("mm2-offset-syncs.west.internal", SelectionRefusal.MIRROR_MAKERS),
        ("mm2-configs.west.internal", SelectionRefusal.MIRROR_MAKERS),
        ("west.checkpoints.internal", SelectionRefusal.MIRROR_MAKERS),
        ("heartbeats", SelectionRefusal.MIRROR_MAKERS),
        ("west.heartbeats", SelectionRefusal.MIRROR_MAKERS),
        ("named.heartbeats", None),
        ("sheartbeats", None),
        ("billing-internal", None),
        ("customer.internal", None),
        ("mm2-migration", None),
        ("__amazon", SelectionRefusal.RESERVED),
        ("__audit", None),
        ("west.invoices", None),
        ("let-in", SelectionRefusal.NOT_INCLUDED),
    ],
)
def test_selection(topic: str, refusal: SelectionRefusal | None) -> None:
    assert SELECTION.refusal(topic) is refusal
    assert SELECTION.selects(topic) is (refusal is None)


def test_what_only_its_name_speaks_against_is_said() -> None:
    topics = ["orders", "__a", "heartbeats", "west.orders", "west.old", "west.ours", "__consumer_offsets"]
    found = SELECTION.left_out(SELECTION.refusals(dict.fromkeys(topics, False)), ["orders", "west.ours"])
    assert found == {
        SelectionRefusal.RESERVED: ["__a"],
        SelectionRefusal.MIRROR_MAKERS: ["heartbeats"],
        SelectionRefusal.MIRRORED_BACK: ["west.old"],
    }
    beside = SELECTION.refusals(dict.fromkeys([*topics, "east.checkpoints.internal"], False))
    assert SelectionRefusal.MIRROR_MAKERS not in SELECTION.left_out(beside, []), (
        "they are MirrorMaker's there"
    )


def test_what_no_rule_names_is_not_selected() -> None:
    selection = TopicSelection((".*",), exclude=("x_REPLICA", "y"), naming=renaming(REPLICA))
    assert selection.refusal("orders_REPLICA") is None
    assert selection.refusal("orders") is SelectionRefusal.NOT_NAMED
    assert selection.refusal("y") is SelectionRefusal.EXCLUDED, "the first that applies is reported"


def test_what_the_broker_calls_internal_is_internal() -> None:
    assert SELECTION.refusal("orders", internal=True) is SelectionRefusal.INTERNAL


def test_patterns_match_whole_names() -> None:
    patterns = NamePatterns(("app-.*",), exclude=("app-test",))
    assert patterns.matches("app-with\na line feed")
    assert [patterns.matches(name) for name in ("app-1", "my-app-1", "app-test", "app-test-2")] == [
        True,
        False,
        False,
        True,
    ]


# Topic ids -------------------------------------------------------------------------------------


@given(st.binary(min_size=16, max_size=16))
def test_topic_ids_go_there_and_back(raw: bytes) -> None:
    text = topic_id_text(raw)
    assert len(text) == 22
    assert topic_id_bytes(text) == raw


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "+", "ä" * 22])
def test_text_that_is_no_topic_id(text: str) -> None:
    with pytest.raises(InvalidValueError):
        topic_id_bytes(text)
