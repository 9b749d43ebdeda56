"""The bootstrap on machines that lack something: one clear line on stderr, exit code 2. What it does is a line each."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.jvm import java_major
from tests.support.checkout import CHECKOUT

BOOTSTRAP = CHECKOUT / ".ci" / "bootstrap"
TOOLS = ("sh", "dirname", "sed", "head")
JAVA_8 = 'java version "1.8.0_292"'
JAVA_11 = 'openjdk version "11.0.20" 2023-07-18'
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'
JAVA_21 = 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19'


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A PATH of one folder that holds neither Python nor Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    return folder


def program(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def add_python(folder: Path) -> None:
    program(folder, "python3", f'exec "{sys.executable}" "$@"')


def add_java(folder: Path, printed: str) -> Path:
    return program(folder, "java", f"printf '%s\\n' '{printed}' >&2")


def check(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Only what is needed to know whether the bootstrap would go on."""
    return subprocess.run(
        [BOOTSTRAP, "--check"],
        env={"PATH": str(path), "HOME": os.devnull, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def assert_refused(run: subprocess.CompletedProcess[str], *words: str) -> None:
    assert run.returncode == 2
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1, run.stderr
    assert all(word in run.stderr for word in words), run.stderr


@pytest.mark.parametrize("printed", [JAVA_17, JAVA_21])
def test_enough_is_enough(machine: Path, printed: str) -> None:
    add_python(machine)
    add_java(machine, printed)
    run = check(machine)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_no_python(machine: Path) -> None:
    add_java(machine, JAVA_17)
    assert_refused(check(machine), "Python 3.11 or later is needed", "none on PATH")


def test_old_python(machine: Path) -> None:
    add_java(machine, JAVA_17)
    program(machine, "python3", "exit 1")
    assert_refused(check(machine), "Python 3.11 or later is needed")


def test_a_shim_that_fails_is_passed_over(machine: Path) -> None:
    program(machine, "python3.13", "echo 'version not installed' >&2; exit 127")
    add_python(machine)
    add_java(machine, JAVA_17)
    run = check(machine)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_named_python_is_the_only_one_tried(machine: Path) -> None:
    add_python(machine)
    add_java(machine, JAVA_17)
    old = program(machine, "old-python", "exit 1")
    assert_refused(check(machine, PYTHON=str(old)), f"PYTHON={old}")


def test_no_java(machine: Path) -> None:
    add_python(machine)
    assert_refused(check(machine), "Java 17 or later is needed", "was not found")


@pytest.mark.parametrize(("printed", "version"), [(JAVA_8, "8"), (JAVA_11, "11")])
def test_old_java(machine: Path, printed: str, version: str) -> None:
    add_python(machine)
    add_java(machine, printed)
    assert_refused(check(machine), "Java 17 or later is needed", f"is version {version}")


def test_java_that_says_nothing(machine: Path) -> None:
    add_python(machine)
    program(machine, "java", "exit 1")
    assert_refused(check(machine), "Java 17 or later is needed", "prints no version")


def test_java_home_wins_over_path(machine: Path, tmp_path: Path) -> None:
    add_python(machine)
    add_java(machine, JAVA_17)
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    add_java(tmp_path / "jdk" / "bin", JAVA_11)
    assert_refused(check(machine, JAVA_HOME=str(tmp_path / "jdk")), "is version 11")


PYTHON_OF_VENV = """case "$*" in
    "-m pip "*) for line in $(seq 50); do echo "pip prints $line"; done; [ -z "$PIP_FAILS" ] || exit 7 ;;
    "-m ledger.sandbox.class_archives") echo "fetching"; [ -z "$IVY_FAILS" ] || exit 6 ;;
esac"""
"""Stands for the Python of `.venv`: pip and Ivy print and fail as they are told."""


@pytest.fixture
def checkout(machine: Path, tmp_path: Path) -> Path:
    """A checkout without `.venv`, on a machine that has what is needed."""
    for tool in ("seq", "tail", "mkdir", "cmp", "cp", "touch"):
        found = shutil.which(tool)
        assert found is not None
        (machine / tool).symlink_to(found)
    add_java(machine, JAVA_17)
    folder = tmp_path / "checkout"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(BOOTSTRAP, folder / ".ci")
    (folder / "pyproject.toml").write_text("[project]\n")
    made = program(machine, "python-of-venv", PYTHON_OF_VENV)
    makes = f'if [ "$2" = venv ]; then mkdir -p .venv/bin; cp "{made}" .venv/bin/python; fi'
    program(machine, "python3", makes)
    return folder


def bootstrap(checkout: Path, machine: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / ".ci" / "bootstrap"],
        env={"PATH": str(machine), "HOME": os.devnull, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_each_chapter_is_a_line_and_what_is_there_is_not_made_again(checkout: Path, machine: Path) -> None:
    first = bootstrap(checkout, machine)
    assert (first.returncode, first.stdout) == (0, "")
    looks, installs, fetches = first.stderr.splitlines()
    assert looks.startswith("looking for Python")
    assert installs.startswith("installing Python packages")
    assert fetches == "fetching"
    assert bootstrap(checkout, machine).stderr.splitlines() == [looks, fetches]


def test_what_pip_printed_last_is_shown_where_it_fails_and_the_file_that_has_all_is_named(
    checkout: Path, machine: Path
) -> None:
    run = bootstrap(checkout, machine, PIP_FAILS="1")
    assert run.returncode == 7
    *_chapters, last, error = run.stderr.splitlines()
    assert last == "pip prints 50"
    assert "pip prints 1" not in run.stderr.splitlines()
    log = checkout / ".mirror-ledger" / "pip.log"
    assert str(log) in error
    assert "pip prints 1\n" in log.read_text()
    assert bootstrap(checkout, machine).returncode == 0, "pip is run again"


def test_the_bootstrap_ends_as_the_fetching_of_jars_does(checkout: Path, machine: Path) -> None:
    assert bootstrap(checkout, machine, IVY_FAILS="1").returncode == 6


@pytest.mark.parametrize(
    ("printed", "major"), [(JAVA_8, 8), (JAVA_11, 11), (JAVA_17, 17), (JAVA_21, 21), ("", None)]
)
def test_the_program_reads_versions_as_the_bootstrap_does(printed: str, major: int | None) -> None:
    assert java_major(printed) == major
