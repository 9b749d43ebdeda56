"""Where the checkout is."""

from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
