-- The offset syncs of spans that are `wanted`, of `facts`. What mirrors wrote below the floor of the source counts as left
-- out for another reason: by whom it was written there is not among what is read.
select
    f.* exclude (gaps),
    flatten(
        list_transform(
            f.gaps,
            lambda gap: case
                when gap.cause = 'mirror_write' and gap.source_start < w.floor_offset
                    then [
                        {
                            'source_start': gap.source_start,
                            'source_end': least(gap.source_end, w.floor_offset),
                            'cause': 'filtered'
                        },
                        {
                            'source_start': least(gap.source_end, w.floor_offset),
                            'source_end': gap.source_end,
                            'cause': 'mirror_write'
                        }
                    ]
                else [gap]
            end
        )
    ) as gaps
from facts as f
inner join wanted as w
    on w.flow = f.flow
    and w.source_topic = f.source_topic
    and w.source_topic_id = f.source_topic_id
    and w.source_partition = f.source_partition
    and w.writer_epoch = f.writer_epoch
    and w.kind = f.kind
    and w.first_round <= f.round
    and w.round >= f.round
    and w.source_start <= f.source_start
    and w.source_end >= f.source_end
