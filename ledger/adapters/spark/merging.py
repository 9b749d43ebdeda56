"""Merged files written by Spark's workers: a merge is bounded, so a ledger of any size is many merges side by side."""

from pyspark import SparkContext

from ledger.adapters.delta.maintenance import TableUpkeep, Upkeep


def merge_on_spark(context: SparkContext, upkeep: TableUpkeep) -> Upkeep:
    """Merge what is due of a table; the driver commits each merge, in turn, as `TableUpkeep.merge` does."""
    files, merges = upkeep.due()
    done = Upkeep(upkeep.table, len(files))
    if not merges:
        return done
    written = context.parallelize(merges, len(merges)).map(upkeep.written).collect()
    for merge, merged in zip(merges, written, strict=True):
        done = upkeep.committed(done, merge, merged)
    return done
