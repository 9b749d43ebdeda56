"""Flows that are disabled: which checks of a configuration leave them out, and which do not."""

import threading
from pathlib import Path

import pytest

from ledger.config.file import load_config
from ledger.config.mirror import MirrorConfig
from ledger.errors import ConfigurationError, PreconditionError, UsageError
from ledger.mirror.progress import config_hash
from ledger.recorders.run import record_clusters
from ledger.topics.naming import SelectionRefusal
from tests.support.config_files import write_config

CLUSTERS = {name: f"{name}:9092" for name in ("east", "north", "west")}
IDENTITY = 'topic_naming = "identity"\ntopics = ["orders"]\n'
BACK = 'source = "west"\ntarget = "east"\ntopics = ["orders"]\n'
DISABLED = "enabled = false\n"


def written(folder: Path, **flows: str) -> MirrorConfig:
    return write_config(folder, CLUSTERS, flows)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('topics = ["orders"]\n', 'topics = ["orders"]\n'),
        (IDENTITY, BACK + 'topic_naming = "identity"\n'),
        ('topics = ["orders"]\nrelay = true\n', BACK + "relay = true\n"),
    ],
    ids=["twice", "ring", "relaying ring"],
)
def test_what_two_flows_may_not_do_together_they_may_when_one_is_disabled(
    tmp_path: Path, one: str, other: str
) -> None:
    for lines in ((one + DISABLED, other), (one, other + DISABLED), (one + DISABLED, other + DISABLED)):
        written(tmp_path, one=lines[0], other=lines[1])
    for lines in ((one, other), (one + "enabled = true\n", other)):
        with pytest.raises(ConfigurationError):
            written(tmp_path, one=lines[0], other=lines[1])


def test_a_disabled_flow_has_no_mistakes_of_its_own_either(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        written(tmp_path, one='target = "wset"\nsource = "east"\ntopics = ["("]\n' + DISABLED)
    keys = {problem.split(":")[0] for problem in refused.value.problems}
    assert keys >= {"flows.one.topics[0]", "flows.one.target"}
    with pytest.raises(ConfigurationError, match=r"flows\.one\.enabled"):
        written(tmp_path, one='topics = ["orders"]\nenabled = "no"\n')


def test_what_a_disabled_flow_has_left_at_the_source_is_not_mirrored_back(tmp_path: Path) -> None:
    config = written(tmp_path, forth='topics = [".*"]\n', back=BACK + 'prefix = "w"\n' + DISABLED)
    assert config.topic_selection("forth").refusal("w.orders") is SelectionRefusal.MIRRORED_BACK
    assert [flow.name for flow in config.readers_of("west", ["orders"])] == ["back"]


def test_a_disabled_flow_copies_nothing_that_another_would_copy_twice_or_leave_to_it(tmp_path: Path) -> None:
    flows = {"a": 'topics = ["a.*"]\n', "b": 'topics = [".*b"]\n'}
    for disabled, others in (("", {"b"}), (DISABLED, set())):
        config = written(tmp_path, a=flows["a"], b=flows["b"] + disabled)
        assert config.also_copied_by("a")("ab") == others
    north = 'source = "north"\ntarget = "west"\ntopic_naming = "identity"\ntopics = ["orders"]\n'
    for disabled, elsewhere in (("", {"east"}), (DISABLED, set())):
        config = written(tmp_path, a=IDENTITY + disabled, z=north)
        assert config.restored_by_other_flow("z")("orders") == elsewhere


def test_a_disabled_flow_is_known_and_may_not_be_run(tmp_path: Path) -> None:
    config = written(tmp_path, one='topics = ["orders"]\n' + DISABLED, two='topics = ["payments"]\n')
    assert not config.flow("one").enabled
    assert [flow.name for flow in config.enabled_flows] == ["two"]
    assert config.enabled_flow("two") is config.flow("two")
    with pytest.raises(
        UsageError, match=r"mirror.toml has enabled = false in \[flows.one\]; nothing was"
    ) as refused:
        config.enabled_flow("one")
    assert "flow one is disabled" in str(refused.value)
    with pytest.raises(UsageError, match="no flow 'three'; it has one, two"):
        config.enabled_flow("three")


def test_recorders_do_nothing_for_a_disabled_flow(tmp_path: Path) -> None:
    config = written(tmp_path, one='topics = ["orders"]\n' + DISABLED)
    with pytest.raises(PreconditionError, match=r"no flow of .* that is enabled touches cluster east"):
        record_clusters(config, ["east"], stop=threading.Event(), once=True)


def test_the_hash_of_a_configuration_that_says_nothing_of_it_is_what_it_was(tmp_path: Path) -> None:
    file = tmp_path / "mirror.toml"
    written(tmp_path, one='topics = ["orders"]\n')
    assert config_hash(load_config(file).flow("one")) == (
        "81557047d9c936d97f892fb794aa625848f3353c37bb5f0d169dd925c8ba8e31"
    )
    assert config_hash(
        written(tmp_path, one='topics = ["orders"]\nenabled = true\n').flow("one")
    ) == config_hash(written(tmp_path, one='topics = ["orders"]\n').flow("one"))
