-- Offset syncs that were opened, as an answer is to have them. What mirrors wrote where not all copies are read counts as left
-- out for another reason: by whom it was written there is not among what is read.
select
    * exclude (gaps, hour, unread_from, unread_to, span_number, span_first_round, span_last_round, span_rows),
    flatten(
        list_transform(
            gaps,
            lambda gap: case
                when gap.cause = 'mirror_write' and gap.source_start < unread_to and gap.source_end > unread_from
                    then case
                        when gap.source_start < unread_from
                            then [{'source_start': gap.source_start, 'source_end': unread_from, 'cause': gap.cause}]
                        else []
                    end || [
                        {
                            'source_start': greatest(gap.source_start, unread_from),
                            'source_end': least(gap.source_end, unread_to),
                            'cause': 'filtered'
                        },
                        {
                            'source_start': least(gap.source_end, unread_to),
                            'source_end': gap.source_end,
                            'cause': gap.cause
                        }
                    ]
                else [gap]
            end
        )
    ) as gaps
from opened
