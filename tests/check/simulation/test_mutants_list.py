"""The list of mutants fits the code: each place is there once, what is put there is Python, its killers exist."""

import ast
import importlib
from collections import Counter
from functools import cache

from tests.soak.mutants.mutant import mutants
from tests.support.checkout import CHECKOUT


@cache
def said_by(source: str) -> str:
    """What a module says, comments left out."""
    return ast.dump(ast.parse(source))


@cache
def defined_in(path: str) -> frozenset[str]:
    """The functions and classes of a module of tests."""
    tree = ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef))


def test_the_place_of_each_is_there_once_and_the_change_is_python() -> None:
    for mutant in mutants():
        source = (CHECKOUT / mutant.module).read_text(encoding="utf-8")
        changed = mutant.applied_to(source)
        if mutant.module.endswith(".py"):
            assert ast.dump(ast.parse(changed)) != said_by(source), mutant.name


def test_something_is_to_notice_each_and_exists() -> None:
    assert [mutant.name for mutant in mutants() if not mutant.killers] == []
    for node in {node for mutant in mutants() for node in mutant.tests}:
        path, *names = node.split("::")
        assert names[0] in defined_in(path), node
        if len(names) > 1:  # a contract's test, which its class may have inherited
            module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
            assert callable(getattr(getattr(module, names[0]), names[1], None)), node


def test_no_mutant_is_listed_twice() -> None:
    counted = Counter[object](mutant.name for mutant in mutants())
    counted.update((mutant.module, mutant.text, mutant.instead) for mutant in mutants())
    assert [what for what, times in counted.items() if times > 1] == []
