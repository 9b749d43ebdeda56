"""Fetching JVM artifacts: all or nothing, and a clear line when it is nothing. Needs no network."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from ledger import jvm
from ledger.errors import SetupError
from tests.support.checkout import CHECKOUT

NOBODY_LISTENS = "http://127.0.0.1:9/"
SMALL = jvm.JarSet(
    name="small-1.0",
    artifacts=(jvm.Artifact("org.example", "small", "1.0"),),
    minimum_jars=2,
    excludes=(("org.unwanted", "*"),),
)


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIRROR_LEDGER_HOME", str(tmp_path / "own"))
    return tmp_path / "own"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository in a folder: `small` needs `needed` and `unwanted`, which nobody has."""
    folder = tmp_path / "repository"
    publish(folder, "org.example", "small", needs=("org.example:needed", "org.unwanted:unwanted"))
    publish(folder, "org.example", "needed")
    monkeypatch.setenv("MIRROR_LEDGER_MAVEN", f"{folder.as_uri()}/")
    return folder


def publish(repository: Path, organisation: str, name: str, needs: tuple[str, ...] = ()) -> None:
    folder = repository / organisation.replace(".", "/") / name / "1.0"
    folder.mkdir(parents=True)
    pairs = [need.split(":") for need in needs]
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>1.0</version></dependency>"
        for group, artifact in pairs
    )
    (folder / f"{name}-1.0.pom").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{organisation}</groupId>"
        f"<artifactId>{name}</artifactId><version>1.0</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    with zipfile.ZipFile(folder / f"{name}-1.0.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")


def sets_in(home: Path) -> list[str]:
    return [path.name for path in (home / "jars").iterdir() if path.is_dir()]


def test_deltas_jar_is_the_one_that_delta_spark_names(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, str] = {}
    monkeypatch.setattr(SparkSession.Builder, "config", lambda _, key, value: told.update({key: value}))
    configure_spark_with_delta_pip(SparkSession.Builder())
    assert told == {"spark.jars.packages": str(*jvm.delta().artifacts)}


def test_a_set_is_fetched_once_without_what_is_excluded(own_home: Path, repository: Path) -> None:
    jars = jvm.fetched(SMALL)
    assert [jar.name for jar in jars] == ["needed-1.0.jar", "small-1.0.jar"]
    assert sets_in(own_home) == ["small-1.0"]
    repository.rename(repository.with_name("gone"))
    assert jvm.fetched(SMALL) == jars


def test_a_missing_dependency_installs_nothing(own_home: Path, repository: Path) -> None:
    (repository / "org/example/needed/1.0/needed-1.0.jar").unlink()
    with pytest.raises(SetupError, match=r"org\.example:small:1\.0 .*needed.*nothing was installed"):
        jvm.fetched(SMALL)
    assert sets_in(own_home) == []


def test_a_damaged_jar_installs_nothing(own_home: Path, repository: Path) -> None:
    (repository / "org/example/needed/1.0/needed-1.0.jar").write_text("<html>sign in</html>")
    with pytest.raises(SetupError, match=r"needed-1\.0\.jar is not a jar; nothing was installed"):
        jvm.fetched(SMALL)
    assert sets_in(own_home) == []


def test_an_unreachable_repository_is_named_as_such(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_LEDGER_MAVEN", NOBODY_LISTENS)
    with pytest.raises(SetupError, match=r"delta-spark_4\.2_2\.13:4\.4\.0 .*Connection refused") as refused:
        jvm.delta_jars()
    assert sets_in(own_home) == []
    [log] = re.findall(r"\(all that Ivy printed: (.*)\)", str(refused.value))
    assert "Connection refused" in Path(log).read_text(), "the file that is named has it"


@pytest.mark.usefixtures("repository")
def test_a_jar_that_was_taken_out_is_noticed(own_home: Path) -> None:
    jvm.fetched(SMALL)[0].unlink()
    with pytest.raises(SetupError, match=r"1 jars, at least 2 expected.*; delete .* and run again"):
        jvm.fetched(SMALL)
    assert sets_in(own_home) == ["small-1.0"]


@pytest.mark.usefixtures("repository")
def test_two_processes_do_not_race(own_home: Path) -> None:
    fetch = (
        "from ledger import jvm;"
        "small = jvm.JarSet('small-1.0', (jvm.Artifact('org.example', 'small', '1.0'),), 2,"
        " (('org.unwanted', '*'),));"
        "print(len(jvm.fetched(small)))"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", fetch], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0] for process in both] == ["2\n", "2\n"]
    assert sets_in(own_home) == ["small-1.0"]


def test_java_that_is_missing_or_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "check_java", jvm._java.__wrapped__)  # its answer is kept per process
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=r"Java 17 or later is needed; .* does not run"):
        jvm.check_java()
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    with pytest.raises(SetupError, match="is version 11"):
        jvm.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(SetupError, match="no java on PATH"):
        jvm.check_java()
