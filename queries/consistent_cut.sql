-- name:    consistent_cut
-- answers: what was known at an instant of the ends of partitions and of commits, and how far apart was it read?
-- grain:   cluster, kind, topic, topic_id, partition, group_id
-- reads:   checkpoints, high_watermarks, recorder_signs, topic_ends, topic_partitions
-- params:  at_ms bigint, cluster string?
-- columns: cluster string, kind string, topic string, topic_id string, partition int, group_id string,
--          log_start bigint, last_stable bigint, high_watermark bigint, committed_offset bigint,
--          last_known_offset bigint, leader_epoch int, read_at_ms bigint, known_at_ms bigint,
--          next_read_at_ms bigint, age_ms bigint, cluster_spread_ms bigint, spread_ms bigint, status string
-- status:  ended, not_read_yet, never_read, gone, hidden, known
--
-- Of every partition (kind is end) and of every group on a partition (commit) the last row that was read at or before
-- at_ms, whenever it was recorded: so the ledger of now tells more of the instant than --as-of the instant.
-- known_at_ms is when it is known to have stood: the read, or for ends a later heartbeat of the recorder until at_ms.
-- next_read_at_ms: the first read behind at_ms that has a row; what changed between the two was not seen. The spread is
-- from the first to the last known_at_ms of what is known, in the cluster and in the whole answer: the reads of a cut
-- were made that far apart, and what happened between them may be on one side of it alone. Unchanged commits have a row
-- only at each full sweep, so their read may be older than the last look.
--
-- ended: by then the topic was recorded as deleted, or with another id. not_read_yet: read behind at_ms only.
-- never_read: the ends of that partition are in no row, as are those of topics that no flow mirrors. gone, hidden: the
-- commit was not there any more, or not shown; last_known_offset is the last one that was seen until then.
with signs as (
    select s.cluster, s.writer_epoch, max(s.round) as round, max_by(s.recorded_at_ms, s.round) as recorded_at_ms
    from recorder_signs as s
    inner join params as p on p.at_ms >= s.recorded_at_ms
    group by s.cluster, s.writer_epoch
),

-- The last read until then comes first, else any later one.
end_reads as (
    select
        h.*,
        h.read_at_ms <= p.at_ms as is_read,
        row_number() over (
            partition by h.cluster, h.topic, h.topic_id, h.partition
            order by h.read_at_ms <= p.at_ms desc nulls last, h.writer_epoch desc nulls last, h.round desc nulls last
        ) as age,
        min(case when h.read_at_ms > p.at_ms then h.read_at_ms end) over (
            partition by h.cluster, h.topic, h.topic_id, h.partition
        ) as next_read_at_ms
    from high_watermarks as h
    cross join params as p
),

-- Of several rows of one round a commit counts before its absence, and the lower offset, which repeats and never skips.
commit_reads as (
    select
        c.*,
        c.read_at_ms <= p.at_ms as is_read,
        row_number() over (
            partition by c.cluster, c.topic, c.partition, c.group_id
            order by
                c.read_at_ms <= p.at_ms desc nulls last,
                c.writer_epoch desc nulls last,
                c.round desc nulls last,
                c.committed_offset asc nulls last
        ) as age,
        max_by(
            c.committed_offset,
            case
                when c.read_at_ms <= p.at_ms and c.committed_offset is not null
                    then c.writer_epoch * 4294967296 + c.round
            end
        ) over (partition by c.cluster, c.topic, c.partition, c.group_id) as last_known_offset,
        min(case when c.read_at_ms > p.at_ms then c.read_at_ms end) over (
            partition by c.cluster, c.topic, c.partition, c.group_id
        ) as next_read_at_ms
    from checkpoints as c
    cross join params as p
),

readings as (
    select
        t.cluster, 'end' as kind, t.topic, t.topic_id, t.partition, cast(null as string) as group_id,
        case when h.is_read then h.log_start end as log_start,
        case when h.is_read then h.last_stable end as last_stable,
        case when h.is_read then h.high_watermark end as high_watermark,
        cast(null as bigint) as committed_offset, cast(null as bigint) as last_known_offset,
        case when h.is_read then h.leader_epoch end as leader_epoch,
        case when h.is_read then h.read_at_ms end as read_at_ms,
        case when h.is_read then coalesce(s.recorded_at_ms, h.read_at_ms) end as known_at_ms,
        h.next_read_at_ms,
        case when h.is_read then 'known' when not h.is_read then 'not_read_yet' else 'never_read' end as reading
    from topic_partitions as t
    left join end_reads as h
        on h.cluster = t.cluster
        and h.topic = t.topic
        and h.topic_id = t.topic_id
        and h.partition = t.partition
        and h.age = 1
    left join signs as s on s.cluster = h.cluster and s.writer_epoch = h.writer_epoch and s.round > h.round
    union all
    select
        c.cluster, 'commit' as kind, c.topic, c.topic_id, c.partition, c.group_id,
        cast(null as bigint) as log_start, cast(null as bigint) as last_stable, cast(null as bigint) as high_watermark,
        case when c.is_read then c.committed_offset end as committed_offset,
        coalesce(case when c.is_read then c.committed_offset end, c.last_known_offset) as last_known_offset,
        case when c.is_read then c.leader_epoch end as leader_epoch,
        case when c.is_read then c.read_at_ms end as read_at_ms,
        case when c.is_read then c.read_at_ms end as known_at_ms,
        c.next_read_at_ms,
        case
            when not c.is_read then 'not_read_yet'
            when c.committed_offset is null then coalesce(c.absence, 'gone')
            else 'known'
        end as reading
    from commit_reads as c
    where c.age = 1
),

judged as (
    select r.*, case when e.topic_id is null then r.reading else 'ended' end as status
    from readings as r
    inner join params as p on coalesce(p.cluster = r.cluster, p.cluster is null)
    left join topic_ends as e
        on e.cluster = r.cluster
        and e.topic_id = r.topic_id
        and e.ended_at_ms <= p.at_ms
)

select
    j.cluster, j.kind, j.topic, j.topic_id, j.partition, j.group_id,
    j.log_start, j.last_stable, j.high_watermark, j.committed_offset, j.last_known_offset, j.leader_epoch,
    j.read_at_ms, j.known_at_ms, j.next_read_at_ms, p.at_ms - j.known_at_ms as age_ms,
    max(case when j.status = 'known' then j.known_at_ms end) over (partition by j.cluster)
    - min(case when j.status = 'known' then j.known_at_ms end) over (partition by j.cluster) as cluster_spread_ms,
    max(case when j.status = 'known' then j.known_at_ms end) over ()
    - min(case when j.status = 'known' then j.known_at_ms end) over () as spread_ms,
    j.status
from judged as j
cross join params as p
order by
    j.cluster nulls last, j.kind nulls last, j.topic nulls last, j.topic_id nulls last,
    j.partition nulls last, j.group_id nulls last
