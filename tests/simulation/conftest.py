"""Seeds of the simulations; the options are declared beside the suite's other fixtures."""

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "simulation_seed" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--simulation-seed")
        number = metafunc.config.getoption("--simulation-seeds")
        metafunc.parametrize("simulation_seed", range(1, number + 1) if seed is None else [seed])
