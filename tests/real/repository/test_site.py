"""The documentation site is built with every link checked, and fetches nothing from elsewhere when it is read."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support import site_pages

FETCHED = re.compile(
    r"""<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=["']?(?:https?:)?//[^"' >]*"""
    r"""|url\(["']?(?:https?:)?//""",
    re.IGNORECASE,
)


def build(folder: Path) -> "subprocess.CompletedProcess[str]":
    """As `make site` does, from the pages in that folder."""
    words = ("-m", "mkdocs", "build", "--quiet", "--config-file", str(site_pages.CONFIGURATION))
    command = [sys.executable, *words, "--site-dir", str(folder / "site")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_site_is_built_whole_and_stands_alone(tmp_path: Path) -> None:
    site_pages.write(site_pages.PAGES)
    built = build(tmp_path)
    assert built.returncode == 0, built.stderr
    files = [one for one in (tmp_path / "site").rglob("*") if one.suffix in (".html", ".css")]
    assert len(files) > len(site_pages.pages())
    fetched = {found for one in files for found in FETCHED.findall(one.read_text(encoding="utf-8"))}
    assert fetched == set()
