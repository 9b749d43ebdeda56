"""What a tail is where cleaners have been at work since it was written, record by record.

A cleaner removes records and never moves one. At the target a batch keeps the range of its sequences, so of each
record that is left its index is known: how many records the flow had written before it, since the recorded end. At
the source the records that are left stand in runs without a hole between them. Within a run indexes go up by one;
what is not known of a run is the index that it begins with.

Rules, by name
    T1  a run begins behind the one before it, at most as many indexes later as the hole between them has offsets.
        Where that leaves one index only it is proved, by counting
    T2  else by content (time, key, value and headers): of a record that is left on both sides exactly once within
        these bounds. All such records of a run have to tell the same index, whatever else of the run is left at the
        target has to agree, and no two runs may cross
    T3  nothing else is paired. What lies between proved pairs is bounded by them: source records are gaps, target
        records have no source that could be identified
    T4  the flow continues behind a paired record only if every source record up to there is at the target, or a later
        one of its key is; and the last one of each key there is the last one that the source has. So a pair that is
        none, because a cleaner took one of two equal records, and records that the target lost otherwise hide nothing
        that a reader of the target could miss
"""
