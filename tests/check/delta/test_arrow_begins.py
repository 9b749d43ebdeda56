"""Commands do not wait for pandas, which pyarrow would import with its first array."""

import subprocess
import sys

_ASKED = """
import sys
import pyarrow as pa
from ledger.adapters.arrow_schema import arrow_rows
from ledger.schema import OPERATIONS
arrow_rows(OPERATIONS, [dict.fromkeys(OPERATIONS.column_names, None)] * 0).to_pylist()
assert pa.table({"number": [1]}).to_pylist() == [{"number": 1}]
assert "pandas" not in sys.modules
import pandas
assert list(pa.table({"number": [1]}).to_pandas()["number"]) == [1]
"""


def test_arrow_begins_without_pandas_and_finds_it_when_it_is_wanted() -> None:
    subprocess.run([sys.executable, "-c", _ASKED], check=True, timeout=60)
