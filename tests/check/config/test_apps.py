"""Applications that a configuration declares."""

from pathlib import Path

import pytest

from tests.support.config_texts import BASE, FLOW_TEXT, load, problems

_APP = '[apps.billing]\ngroups = ["billing"]\noutputs = ["invoices", "ledger"]\n'


def test_groups_of_an_application_have_its_outputs(tmp_path: Path) -> None:
    shipping = '[apps.shipping]\ngroups = ["pack", "send"]\noutputs = ["parcels"]\n'
    assert load(tmp_path, BASE + FLOW_TEXT + _APP + shipping).outputs_of_groups == {
        "billing": ("invoices", "ledger"),
        "pack": ("parcels",),
        "send": ("parcels",),
    }
    assert load(tmp_path, BASE + FLOW_TEXT).outputs_of_groups == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[apps.a]\ngroups = ["g"]', "apps.a.outputs: is missing"),
        ('[apps.a]\ngroups = []\noutputs = ["t"]', "apps.a.groups: Tuple should have at least 1 item"),
        ('[apps.a]\ngroups = ["g"]\noutputs = ["t"]\nout = 1', "apps.a.out: unknown key"),
        ('[apps."a b"]\ngroups = ["g"]\noutputs = ["t"]', "apps.a b: a name has letters, digits"),
        ("[apps]\na = 1", "apps.a: is a table, got int"),
        (
            f'{_APP}[apps.other]\ngroups = ["billing"]\noutputs = ["t"]',
            "apps: group 'billing' is one of billing and of other: say all that it writes in one place",
        ),
    ],
)
def test_an_application_that_is_none_is_a_problem(tmp_path: Path, text: str, problem: str) -> None:
    [found] = problems(tmp_path, f"{BASE}{FLOW_TEXT}{text}")
    assert found.startswith(problem)
    assert problems(tmp_path, f"apps = 1\n{BASE}{FLOW_TEXT}") == ["apps: is a table [apps.NAME], got int"]
