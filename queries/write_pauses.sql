-- name:    write_pauses
-- answers: for how long did writers of a cluster's partitions pause at most, since a time?
-- grain:   topic, topic_id, partition
-- reads:   high_watermarks
-- params:  cluster string, since_ms bigint
-- columns: topic string, topic_id string, partition int, changes bigint, longest_pause_ms bigint
-- status:  none
--
-- A pause is the time between two reads that found another high watermark than the read before. It is known as exactly
-- as the recorder reads often. Of a partition with less than two such reads nothing is known: null, or no row.
with reads as (
    select
        h.topic,
        h.topic_id,
        h.partition,
        h.read_at_ms,
        h.high_watermark,
        lag(h.high_watermark) over (
            partition by h.topic, h.topic_id, h.partition
            order by h.read_at_ms nulls last, h.high_watermark nulls last
        ) as former_high_watermark
    from high_watermarks as h
    inner join params as p on p.cluster = h.cluster and h.read_at_ms >= p.since_ms
),

changes as (
    select
        r.topic,
        r.topic_id,
        r.partition,
        r.read_at_ms - lag(r.read_at_ms) over (
            partition by r.topic, r.topic_id, r.partition
            order by r.read_at_ms nulls last, r.high_watermark nulls last
        ) as pause_ms
    from reads as r
    where r.high_watermark <> r.former_high_watermark
)

select
    c.topic,
    c.topic_id,
    c.partition,
    count(*) as changes,
    max(c.pause_ms) as longest_pause_ms
from changes as c
group by c.topic, c.topic_id, c.partition
order by c.topic nulls last, c.topic_id nulls last, c.partition nulls last
