"""A Chromium without a window: it draws a page, or prints it."""

import shutil
import subprocess
import tempfile

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def browser() -> str:
    """The path of a Chromium; raises `FileNotFoundError` where there is none."""
    found = next((path for name in BROWSERS if (path := shutil.which(name)) is not None), None)
    if found is None:
        raise FileNotFoundError(f"none of {', '.join(BROWSERS)} is on this machine: no page can be drawn")
    return found


def browse(*words: str) -> None:
    """Run a browser without a window, with a profile of its own; raises `CalledProcessError` where it fails."""
    with tempfile.TemporaryDirectory() as profile:
        options = (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
        )
        subprocess.run([browser(), *options, *words], capture_output=True, check=True, timeout=120)
