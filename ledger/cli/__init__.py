"""The command line."""

import gc

gc.set_threshold(
    50_000, 20, 50
)  # to look for garbage among what was imported took a tenth of what a command costs
