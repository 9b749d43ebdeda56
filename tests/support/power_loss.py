"""A disk that forgets with the power what nobody has synced: contents of files, and names in folders, each by itself.

Whatever writes, this process syncs by `os.fsync`, or nobody does. A file whose content was not synced may be there
afterwards as it was, empty or cut; a name that was not synced may be there or not, whatever became of the content.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest


class Disk:
    """Of a folder what is synced so far. `seen`: is called right before and behind each time that somebody syncs."""

    def __init__(self, folder: Path, patched: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.seen: Callable[[], None] = lambda: None
        self._contents: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        really = os.fsync

        def fsync(opened: int) -> None:
            place = Path(os.readlink(f"/proc/self/fd/{opened}"))
            if not place.is_relative_to(folder):
                return
            self.seen()
            really(opened)
            self._sync(place)
            self.seen()

        patched.setattr(os, "fsync", fsync)

    def _sync(self, place: Path) -> None:
        if place.is_dir():
            self._names[place] = {one.name: one.stat().st_ino for one in place.iterdir()}
        else:
            self._contents[place.stat().st_ino] = place.read_bytes()

    def left_by_power_loss(self, copy: Path, rng: random.Random) -> None:
        """What of the folder is found afterwards, as a copy."""
        copy.mkdir(parents=True)
        self._leave(self.folder, copy, rng)

    def _leave(self, folder: Path, copy: Path, rng: random.Random) -> None:
        synced = self._names.get(folder, {})
        for one in sorted(folder.iterdir()):
            if one.name not in synced and rng.random() < 0.5:
                continue
            if one.is_dir():
                (copy / one.name).mkdir()
                self._leave(one, copy / one.name, rng)
            else:
                (copy / one.name).write_bytes(self._found(one, rng))

    def _found(self, file: Path, rng: random.Random) -> bytes:
        data = file.read_bytes()
        synced = self._contents.get(file.stat().st_ino)
        if synced == data:
            return data
        return rng.choice([data, b"", data[: len(data) // 2], bytes(len(data))])
