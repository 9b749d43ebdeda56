-- Offset syncs that were opened, as an answer is to have them. What mirrors wrote below the floor of the source counts as left
-- out for another reason: by whom it was written there is not among what is read.
select
    * exclude (gaps, hour, floor_offset, span_number, span_first_round, span_last_round, span_rows),
    flatten(
        list_transform(
            gaps,
            lambda gap: case
                when gap.cause = 'mirror_write' and gap.source_start < floor_offset
                    then [
                        {
                            'source_start': gap.source_start,
                            'source_end': least(gap.source_end, floor_offset),
                            'cause': 'filtered'
                        },
                        {
                            'source_start': least(gap.source_end, floor_offset),
                            'source_end': gap.source_end,
                            'cause': 'mirror_write'
                        }
                    ]
                else [gap]
            end
        )
    ) as gaps
from opened
