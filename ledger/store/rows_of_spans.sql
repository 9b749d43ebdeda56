-- The offset syncs of `facts` that `wanted` spans stand for, each with what is asked of its span.
select
    f.*,
    w.hour,
    w.unread_from,
    w.unread_to,
    w.span_number,
    w.first_round as span_first_round,
    w.round as span_last_round,
    w.rows as span_rows
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
