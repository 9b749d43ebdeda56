"""`PROTOCOL.md` and the classes of `facts` say the same about every kind of operation."""

import json
import re
from pathlib import Path

import pytest

import ledger
from ledger.facts.every_kind import EVERY_KIND, content_of
from ledger.facts.operations import OperationKind
from tests.support import operation_contents
from tests.support.documents import definitions, json_examples, section

PROTOCOL = (Path(ledger.__file__).parent / "PROTOCOL.md").read_text(encoding="utf-8")
SECTION = section(PROTOCOL, "Operations")
STATED = {kind: defined.parts["Keys"] for kind, defined in definitions(SECTION).items()}
"""By kind its keys in words."""
(EXAMPLES,) = json_examples(SECTION)

every_kind = pytest.mark.parametrize("kind", OperationKind)


def keys_of(value: object) -> set[str]:
    """Of all objects in a value with a fixed set of keys; those of a mapping from names are left out."""
    if isinstance(value, list):
        return {key for one in value for key in keys_of(one)}
    return set(value) if isinstance(value, dict) else set()


def test_the_kinds_that_are_stated_are_those_that_exist() -> None:
    assert set(STATED) == set(EXAMPLES) == set(OperationKind)


def test_every_kind_has_its_class() -> None:
    assert {kind: content.kind for kind, content in EVERY_KIND.items()} == {
        kind: kind for kind in OperationKind
    }


@every_kind
def test_every_key_is_stated(kind: OperationKind) -> None:
    example = EXAMPLES[kind]
    keys = set(example).union(*(keys_of(value) for value in example.values() if isinstance(value, list)))
    assert keys <= set(re.findall(r"`(\w+)`", STATED[kind]))


@every_kind
def test_an_example_is_read_as_what_it_says_and_recorded_as_it_is_stated(kind: OperationKind) -> None:
    read = content_of({"kind": kind.value, "content": json.dumps(EXAMPLES[kind])})
    assert read == operation_contents.content_of(kind)
    assert read is not None
    assert list(read.content().items()) == list(EXAMPLES[kind].items())
    assert json.loads(json.dumps(read.content())) == EXAMPLES[kind]
