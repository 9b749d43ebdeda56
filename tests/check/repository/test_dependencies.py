"""What the package declares that it needs is what it imports, and the other way round."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from tests.support.checkout import CHECKOUT

NOT_IMPORTED = {
    "delta-spark": "its version is that of the jars which Spark needs (`ledger/jvm.py`)",
}
BROUGHT_ALONG = {"py4j": "pyspark"}  # pinned by the dependency that brings it, whose errors it carries
OF_EXTRAS = {
    "aws_msk_iam_sasl_signer": ("iam", "aws-msk-iam-sasl-signer-python"),
    "botocore": ("iam", "aws-msk-iam-sasl-signer-python"),
    "gssapi": ("kerberos", "gssapi"),
    "markupsafe": ("report", "jinja2"),
    "pygal": ("report", "pygal"),
}
"""Modules of extras that few need, and what brings them: they need not be installed."""
PACKAGE = ("ledger", "jobs")


def declared() -> set[str]:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return set(map(named, [*project["dependencies"], *extras["sandbox"], *extras["serve"]]))


def named(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].lower()


def brought_by(names: Iterable[str]) -> set[str]:
    """What is installed with these distributions, without their extras."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        if (name := waiting.pop()) in found:
            continue
        try:
            needed = requires(name) or ()
        except PackageNotFoundError:  # for another Python, or another system
            continue
        found.add(name)
        waiting += [named(each) for each in needed if "extra ==" not in each]
    return found


def imported(paths: Iterable[Path]) -> set[str]:
    """Top-level modules of others that these files import, wherever in them."""
    found: set[str] = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").split(".")[0])
    return found - set(sys.stdlib_module_names) - {*PACKAGE}


def distributions(modules: Iterable[str]) -> Mapping[str, set[str]]:
    """Which distributions bring each of these modules."""
    brought = packages_distributions()
    return {
        module: {name.lower().replace("_", "-") for name in brought.get(module, ())} for module in modules
    }


def of_package() -> set[str]:
    return imported(path for top in PACKAGE for path in (CHECKOUT / top).rglob("*.py"))


def test_each_declared_dependency_is_imported_or_has_its_reason() -> None:
    needed = set().union(*distributions(of_package()).values())
    assert declared() - needed == set(NOT_IMPORTED)


def test_each_import_is_of_a_declared_dependency() -> None:
    known = declared()
    undeclared = {module for module, found in distributions(of_package()).items() if not found & known}
    assert undeclared == set(BROUGHT_ALONG) | set(OF_EXTRAS)
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert all(name in map(named, extras[extra]) for extra, name in OF_EXTRAS.values())
    assert set(BROUGHT_ALONG.values()) <= known


def test_no_command_waits_for_pandas_or_numpy() -> None:
    """pyarrow imports both where it finds them: 0.1 s before each command, and as much again at the first array."""
    brought = brought_by(declared())
    assert {"py4j", "cffi"} < brought, "what dependencies need is seen"
    assert brought & {"pandas", "numpy"} == set()


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        "import os\nimport duckdb.typing as t\nfrom ledger import schema\n"
        "def later():\n    from pyarrow.fs import FileSystem\n    from . import beside\n"
    )
    assert imported([sample]) == {"duckdb", "pyarrow"}
