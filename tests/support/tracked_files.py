"""What is in the repository, for tests that read it as data."""

import ast
import subprocess
from functools import cache
from pathlib import Path

from tests.support.checkout import CHECKOUT

TOP_LEVEL = {
    *("pyproject.toml", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "Makefile", "LICENSE"),
    *("ledger", "jobs", "queries", "tests", "conf"),
}


def tracked() -> list[Path]:
    """What is in the repository, or would be with the next `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    paths = [CHECKOUT / name for name in sorted(set(listed.split("\0"))) if name]
    return [path for path in paths if path.is_file()]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def relative(path: Path) -> str:
    return str(path.relative_to(CHECKOUT))


def of_type(suffix: str, *folders: str) -> list[Path]:
    tops = folders or tuple(TOP_LEVEL)
    return [
        path for path in tracked() if path.suffix == suffix and path.relative_to(CHECKOUT).parts[0] in tops
    ]
