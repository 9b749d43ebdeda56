"""A configuration of MirrorMaker 2 that was imported mirrors the same topics and groups as a real MirrorMaker."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.maker_runs import assert_mirrored_alike, maker_site


@pytest.mark.parametrize("name", ["active_passive.properties", "same_names.properties"])
def test_both_mirror_the_same(
    name: str, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with maker_site(name, tmp_path, spark, capsys) as site:
        assert_mirrored_alike(site)
