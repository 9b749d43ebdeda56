-- High watermarks that are `kept`, and of `every` those of a window before the last read of each partition that is
-- `measured`. Where nobody but flows has written `brought_offsets`, the first that saw more.
select *
from kept
union
select h.*
from every as h
inner join measured as m using (cluster, topic, topic_id, partition)
where h.recorded_at_ms between getvariable('first_ms') and getvariable('last_ms')
    and h.read_at_ms >= m.read_at_ms - getvariable('window_ms')
union
select unnest(first)
from (
    select arg_min(h, h.writer_epoch * 4294967296 + h.round) as first
    from every as h
    inner join measured as m using (cluster, topic, topic_id, partition)
    where h.high_watermark > m.brought_offsets
    group by h.cluster, h.topic, h.topic_id, h.partition
)
