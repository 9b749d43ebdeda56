"""Configurations of MirrorMaker 2 as public ones look, and what an import makes of one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ledger.config.file import checked_config
from ledger.config.mirror import MirrorConfig
from ledger.config.values import FlowConfig
from ledger.mirror_maker.configuration import MakerConfiguration, Release, understood
from ledger.mirror_maker.reading import parsed
from ledger.mirror_maker.translating import KeyRow, key_rows, translated
from ledger.mirror_maker.writing import configuration_text
from tests.support.checkout import CHECKOUT

FOLDER = CHECKOUT / "tests" / "cases" / "maker_files"
FILES = tuple(sorted(path.name for path in FOLDER.iterdir()))
FIRST, SECOND = "first.example:9092", "second.example:9092"
"""Addresses in the files that MirrorMaker can be run with."""


@dataclass(frozen=True)
class Imported:
    """`all_rows`: of keys of the files, in their order, and then what differs by default."""

    made: MakerConfiguration
    text: str
    all_rows: tuple[KeyRow, ...]

    @property
    def rows(self) -> Mapping[str, KeyRow]:
        """Of keys of the files, by key: of several the last one."""
        return {row.key: row for row in self.all_rows if row.where != "default"}

    @property
    def config(self) -> MirrorConfig:
        """What the text says to whoever loads it."""
        return checked_config(self.text, Path("imported.toml"))

    @property
    def flow(self) -> FlowConfig:
        """The first flow."""
        return next(iter(self.config.flows.values()))


def imported(
    *contents: str | bytes,
    name: str = "mm2.properties",
    release: Release | None = None,
) -> Imported:
    files = [parsed(name, text.encode() if isinstance(text, str) else text) for text in contents]
    made = understood(files, release)
    translation = translated(made)
    remarks = [remark for file in files for remark in file.remarks]
    return Imported(
        made, configuration_text(translation, [name]), tuple(key_rows(made, translation, remarks))
    )


def imported_file(name: str) -> Imported:
    return imported((FOLDER / name).read_bytes(), name=name)


BASE = """clusters = a, b
a.bootstrap.servers = a1:9092
b.bootstrap.servers = b1:9092
a->b.enabled = true
"""
"""The least that mirrors something."""


def of_lines(*lines: str) -> Imported:
    """`BASE` with further lines."""
    return imported(BASE + "\n".join(lines))
