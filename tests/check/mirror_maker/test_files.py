"""Whole files as public ones look: each is imported, loaded again, and says what it was made for."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import ConfigurationError, InvalidValueError
from ledger.mirror_maker.keys import HIDDEN, Verdict
from ledger.mirror_maker.reading import parsed, read_file
from tests.support.maker_files import FILES, Imported, imported, imported_file

UNDECIDED = {"placeholders.properties"}
"""Where a value has to be written before anything loads."""


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_imported_and_what_it_comes_to_is_loaded(name: str) -> None:
    found = imported_file(name)
    if name not in UNDECIDED:
        assert found.config.flows
    rows = [row for row in found.all_rows if row.where not in ("default", "file")]
    assert len({row.where for row in rows}) == len(rows) > 3, "a row for every key"
    assert all(row.remark or row.verdict is Verdict.TAKEN for row in rows)
    assert all(row.taken_as or row.key == "clusters" for row in rows if row.verdict is Verdict.TAKEN)
    printed = found.text + "".join(f"{row.key} {row.value} {row.remark}" for row in found.all_rows)
    assert "not-a-secret" not in printed
    assert all(len(line) <= 120 for line in found.text.splitlines() if line.startswith("# "))


def test_there_are_files_of_every_form() -> None:
    assert len(FILES) >= 12
    assert {Path(name).suffix for name in FILES} == {".properties", ".json", ".yaml"}


def flows(found: Imported) -> Mapping[str, Any]:
    return tomllib.loads(found.text)["flows"]  # type: ignore[no-any-return]


def verdicts(found: Imported, verdict: Verdict) -> set[str]:
    return {row.where for row in found.all_rows if row.verdict is verdict}


def test_an_active_and_a_passive_side() -> None:
    found = imported_file("active_passive.properties")
    assert flows(found)["first-to-second"]["topics"] == ["orders", r"payments\..*", "inventory.v1"]
    assert {name: flow["enabled"] for name, flow in flows(found).items()} == {
        "first-to-second": True,
        "second-to-first": False,
    }
    assert verdicts(found, Verdict.NOT_YET) == verdicts(found, Verdict.IGNORED) == set()


def test_everything_that_is_misspelt_is_found() -> None:
    found = imported_file("misspelt.properties")
    expected = {f"line {number}" for number in (*range(7, 20), 22)}
    assert verdicts(found, Verdict.IGNORED) == expected
    assert found.config.flow("first-to-second").tasks == 2


def test_a_cluster_of_the_house_and_a_managed_one_keep_their_logins() -> None:
    found = imported_file("managed.properties")
    assert verdicts(found, Verdict.NOT_YET) == set()
    house = found.config.cluster("house").properties
    assert (house["ssl.truststore.location"], house["ssl.keystore.location"]) == (
        "/etc/kafka/trust.jks",
        "/etc/kafka/mirror.jks",
    )
    assert house["ssl.endpoint.identification.algorithm"] == "none"


def test_placeholders_of_secrets_are_references_and_others_are_left_to_who_imports() -> None:
    found = imported_file("placeholders.properties")
    clusters = tomllib.loads(found.text)["clusters"]
    assert "bootstrap_servers" not in clusters["plant"]
    assert found.rows["plant.bootstrap.servers"].verdict is Verdict.NOT_YET
    assert clusters["plant"]["sasl.password"] == {"env": "PLANT_PASSWORD"}
    assert clusters["hub"]["sasl.password"] == {"file": "/run/secrets/hub-password"}
    assert found.rows["plant->hub.topics"].verdict is Verdict.NOT_YET
    assert flows(found)["plant-to-hub"]["enabled"] is False


def test_connectors_with_different_separators() -> None:
    found = imported_file("connectors.json")
    flow = found.config.flow("first-to-second")
    assert flow.naming.target_name("orders") == "first-orders"
    assert (flow.groups, flow.sync_groups, flow.sync_groups_seconds) == (("billing",), True, 3600.0)
    [separator] = [row for row in found.all_rows if row.where == "[1].config.replication.policy.separator"]
    assert (separator.verdict, "never translated" in str(separator.remark)) == (Verdict.DIFFERS, True)
    assert not [row for row in found.all_rows if "connector lacks" in str(row.remark)]


@pytest.mark.parametrize("form", ["list", "files", "bare", "properties"])
def test_a_connector_is_the_same_however_it_is_given(form: str) -> None:
    [source, checkpoint] = json.loads(
        (Path(__file__).parents[2] / "cases/maker_files/connectors.json").read_text()
    )
    contents = {
        "list": [json.dumps([source, checkpoint])],
        "files": [json.dumps(source), json.dumps(checkpoint)],
        "bare": [json.dumps(source["config"]), json.dumps(checkpoint["config"])],
        "properties": [
            "\n".join(f"{key} = {value}".replace("\\", "\\\\") for key, value in one["config"].items())
            for one in (source, checkpoint)
        ],
    }[form]
    assert imported(*contents).config.flows == imported_file("connectors.json").config.flows


@pytest.mark.parametrize("name", ["strimzi_v1beta2.yaml", "strimzi_v1.yaml"])
def test_resources_of_strimzi(name: str) -> None:
    found = imported_file(name)
    shown = {
        row.key: row.value for row in found.all_rows if row.where.startswith("spec.") and row.value != HIDDEN
    }
    assert shown["topics"] in ("orders|payments.*", r"sensors\..*")
    if name == "strimzi_v1beta2.yaml":
        flow = found.config.flow("site-a-to-site-b")
        assert (flow.topic_naming, flow.tasks, flow.replication_factor) == ("identity", 4, -1)
        assert (flow.topics, flow.exclude) == (("orders|payments.*",), (".*[.]us", r".*[\-\.]internal"))
        assert (flow.groups_exclude, flow.sync_groups) == (("test-.*",), True)
        assert found.config.cluster("site-a").properties == {"security.protocol": "SSL"}
        lacking = [
            str(row.remark) for row in found.all_rows if "the checkpoint connector lacks" in str(row.remark)
        ]
        assert len(lacking) == 1
        assert "lacks replication.policy.class and names topics in another way" in lacking[0]
    else:
        assert set(found.config.flows) == {"plant-to-hub", "office-to-hub"}
        flow = found.config.flow("plant-to-hub")
        assert (flow.groups, flow.sync_groups_seconds) == (("dashboards", "alarms"), 30.0)
        assert found.config.cluster("hub").properties["sasl.mechanism"] == "SCRAM-SHA-512"
        assert any("other kinds" in str(row.remark) for row in found.all_rows if row.where == "file")


# -- What is no file of MirrorMaker ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.properties", b"a = b", "no key `clusters`"),
        ("x.properties", b"", "no key `clusters`"),
        ("x.properties", b"clusters = a\nb = \\u12", "line 2"),
        ("x.json", b"{", "is not JSON: "),
        (
            "x.json",
            b'// of east\n// of west\n{"name": "a"}',
            "is not JSON: Expecting value in line 1, column 1",
        ),
        ("x.json", b"{}", "no connector"),
        ("x.json", b"[1]", "is an object of JSON"),
        ("x.json", b'{"connector.class": "org.example.Other"}', "no connector"),
        ("x.yaml", b"a: b", "no resource of kind KafkaMirrorMaker2"),
        ("x.yaml", b"kind: KafkaMirrorMaker2\nspec: {a: [", "is not YAML: "),
        ("x.yaml", b"kind: KafkaMirrorMaker2\n", "spec is missing"),
        (
            "x.yaml",
            b"kind: KafkaMirrorMaker2\nspec:\n  mirrors:\n  - sourceCluster: x\n",
            "none of spec.clusters",
        ),
        ("x.yaml", b"kind: KafkaMirrorMaker2\nspec:\n  mirrors: x\n", "is a list of objects"),
    ],
)
def test_what_is_none_is_refused_in_one_sentence(name: str, content: bytes, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        parsed(name, content)


@pytest.mark.parametrize(
    "content", [b"clusters = a\n", b"clusters =\n", b"kind: KafkaMirrorMaker2\nspec: {}\n"]
)
def test_a_file_that_mirrors_nothing_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidValueError, match="mirrors nothing"):
        imported(content)


def test_a_secret_in_broken_text_is_never_quoted() -> None:
    for name, content in (
        ("x.json", b'{"sasl.jaas.config": "password=not-a-secret" "x"}'),
        ("x.yaml", b"kind: KafkaMirrorMaker2\nspec:\n  password: 'not-a-secret\n x: ]"),
    ):
        with pytest.raises(InvalidValueError) as caught:
            parsed(name, content)
        assert "not-a-secret" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be read: .*; nothing was imported"):
        read_file(tmp_path / "nothing")


def test_characters_beyond_ascii_are_said() -> None:
    found = imported("# ä\nclusters = a, b\n".encode())
    assert "ISO 8859-1" in str(next(row.remark for row in found.all_rows if row.where == "file"))
