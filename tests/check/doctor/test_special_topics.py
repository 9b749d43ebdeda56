"""What doctor says of topics that are not copied as plain bytes, and of those of tools."""

import pytest

from ledger.doctor import special_topics
from ledger.doctor.checks import Check, Verdict
from ledger.doctor.results import CheckResult
from ledger.doctor.topic_settings import TopicPair
from tests.support.topic_pairs import NOT_KNOWN, pair


def _said(*pairs: TopicPair, is_filtered: bool = False) -> str:
    [result] = special_topics.record_path("flow f", pairs, is_filtered=is_filtered)
    assert (result.check, result.verdict) == (Check.RECORD_PATH, Verdict.OK)
    return result.measured


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ({"message.timestamp.type": "LogAppendTime"}, {}, "LogAppendTime"),
        ({"cleanup.policy": "compact,delete"}, {}, "cleaner"),
        ({}, {"max.message.bytes": "1000"}, "are cut"),
    ],
)
def test_what_goes_by_the_record_path_is_named_with_why(
    source: dict[str, str], target: dict[str, str], why: str
) -> None:
    said = _said(pair(source=source, target=target))
    assert said.startswith("a: ")
    assert why in said
    assert why not in _said(pair())


def test_a_filter_is_of_all_topics() -> None:
    assert "filter" in _said(pair(), is_filtered=True)
    assert _said(pair()) == "1 topic: copied as the bytes they are"
    [result] = special_topics.record_path("flow f", NOT_KNOWN, is_filtered=False)
    assert result.verdict is Verdict.UNKNOWN


def test_tiered_storage_is_left_out_and_said() -> None:
    tiered = {"remote.storage.enable": "true"}
    [result] = special_topics.tiered("flow f", (pair(source=tiered), pair()))
    assert result.verdict is Verdict.WARNING
    assert result.measured.startswith("east.a: remote.storage.enable is true")
    assert list(special_topics.tiered("flow f", (pair(source=tiered, target=tiered),))) == []


def _tools(topics: list[str], selected: list[str]) -> list[CheckResult]:
    return list(special_topics.tool_topics("flow f", topics, selected))


def test_topics_of_tools_are_named_each_as_mirrored_or_left_out() -> None:
    topics = [
        "_schemas",
        "connect-configs",
        "my-connect-offsets",
        "app-store-changelog",
        "app-x-repartition",
        "orders",
    ]
    results = _tools(topics, ["app-store-changelog", "orders"])
    said = [result.measured for result in results]
    assert [line.split(" (")[0] for line in said] == [
        "_schemas",
        "connect-configs, my-connect-offsets",
        "app-store-changelog",
        "app-x-repartition",
    ]
    assert ["mirrored: " in line for line in said] == [False, False, True, False]
    assert all("left out: " in line for line in said if "mirrored: " not in line)
    assert _tools(["orders"], ["orders"]) == []
