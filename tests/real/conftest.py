"""Fixtures over real clusters: checks, which have none, do not wait for their imports."""

from tests.support.clusters import broker_pair, broker_pair_sandbox, north, spark
from tests.support.copies import far_copy, lines, near_copy
from tests.support.doors import doors
from tests.support.flows import flow
from tests.support.guarded import guarded, guarded_pair, guarded_pair_sandbox
from tests.support.site import site
from tests.support.trio import trio, trio_sandbox

__all__ = ["broker_pair", "broker_pair_sandbox", "far_copy", "flow", "guarded", "guarded_pair"]
__all__ += ["doors", "guarded_pair_sandbox"]
__all__ += ["lines", "near_copy", "north", "site", "spark", "trio", "trio_sandbox"]
