"""Configurations of MirrorMaker 2 that were imported mirror the same topics and groups as a real one."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.guarded_makers import assert_managed_alike, managed_site
from tests.support.maker_runs import assert_mirrored_alike, maker_site

NAMES = (
    *("active_passive.properties", "both_ways.properties", "empty_separator.properties"),
    *("underscore.properties", "misspelt.properties", "fan_out.properties", "same_names.properties"),
    *("strimzi_v1.yaml", "strimzi_v1beta2.yaml"),
)


@pytest.mark.parametrize("name", NAMES)
def test_both_mirror_the_same(
    name: str, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with maker_site(name, tmp_path, spark, capsys) as site:
        assert_mirrored_alike(site)


def test_connectors_whose_checkpoints_never_translate(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source connector names topics with a hyphen, the checkpoint connector with a dot."""
    with maker_site("connectors.json", tmp_path, spark, capsys) as site:
        assert_mirrored_alike(site, has_checkpoints=False)


def test_a_file_with_logins(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By certificates at the source, by a password at the target, as the file says for both programs."""
    with managed_site(tmp_path, spark, capsys) as site:
        assert_managed_alike(site, monkeypatch)
