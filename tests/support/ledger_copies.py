"""Copies of a ledger: the paths in a Delta table are relative, so a copied folder is a ledger like the first."""

import shutil
from pathlib import Path


def copied_to(folder: Path, ledger: Path) -> str:
    """The path of a copy below the folder."""
    return str(shutil.copytree(ledger, folder / "ledger"))
