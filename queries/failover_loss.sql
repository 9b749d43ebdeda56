-- name:    failover_loss
-- answers: what would be lost, partition by partition, if one cluster were lost now and another took over?
-- grain:   flow, source_topic, source_topic_id, source_partition
-- reads:   ended_topics, losable_partitions, unseen_ends
-- params:  from_cluster string, to_cluster string, at_ms bigint?
-- columns: flow string, source_topic string, source_topic_id string, source_partition int, last_stable bigint,
--          high_watermark bigint, known_end bigint, map_end bigint, settled_records bigint, records_at_risk bigint,
--          level_at_ms bigint, lost_since_ms bigint, at_risk_ms bigint, ends_read_at_ms bigint, age_ms bigint,
--          unseen_ms bigint, rate_per_second double, rate_at_ms bigint, extra_estimate bigint,
--          unrecorded_copies bigint, has_gaps boolean, loss_at_least bigint, loss_at_most bigint,
--          status string
-- status:  unknown, complete, lagging
--
-- A row is a partition at from_cluster of a topic that a flow to to_cluster copies, as far as it is known and the topic
-- still exists. map_end is up to where it was copied, settled_records what was found at the target behind that without
-- the source ("Settling", PROTOCOL.md). known_end is the highest offset at which it is known to have ended: by the last
-- read, by what flows wrote to there, by what was copied or settled. records_at_risk are the offsets between, which may
-- be records: not counted is what flows wrote to there, and what was decided to stay there. Gaps and filtered records are
-- counted, nobody has read them.
--
-- lost_since_ms is when a reading first saw more than was copied and settled, level_at_ms the last one before that saw
-- no more (null: none did). at_risk_ms counts to ends_read_at_ms, from level_at_ms where there is one: so it is at most
-- that, by the interval of the recorder; else at least, and null where that is nothing.
--
-- The loss lies between loss_at_least and loss_at_most. Of records_at_risk as many may be copied and not recorded as
-- the target was seen to hold behind the map (unrecorded_copies; null, and nothing is sure: its ends were never read,
-- or the flow has met offsets that hold no record, has_gaps, so these may be markers too).
-- Beyond them at most extra_estimate came: what the highest rate between two readings (rate_per_second, of the five
-- minutes before the last one, else of the hour) brings in unseen_ms, from ends_read_at_ms to at_ms, or to when the
-- cluster was first seen not to answer. It is null, and so is loss_at_most, where the ends were read once only, or no
-- at_ms is given. A higher rate than any that was seen, and what a cluster takes that the mirror alone cannot reach, are
-- beyond it.
--
-- flow is null where no flow from there has begun with a topic that was brought there from to_cluster: all that nobody
-- brought there lies at from_cluster alone (applications write there once it is promoted). Then map_end is null, and what
-- a flow has brought and not recorded counts as lost.
--
-- unknown: the ends were never read, or nothing is recorded of the partition, or of this life of the topic, and it has
-- held records: then nothing is counted, and all of it may be lost.
with covered as (
    select l.*, p.at_ms
    from losable_partitions as l
    inner join params as p
        on p.from_cluster = l.source_cluster
        and p.to_cluster = l.target_cluster
),

figures as (
    select
        a.flow,
        a.source_topic,
        a.source_topic_id,
        a.source_partition,
        e.last_stable,
        e.high_watermark,
        e.measured_at_ms,
        a.map_end,
        a.settled_records,
        coalesce(a.covered_end, case when e.high_watermark = 0 then 0 end) as covered_end,
        greatest(e.high_watermark, a.reached_end) as known_end,
        a.written_offsets,
        a.level_at_ms,
        a.lost_since_ms,
        case when a.at_ms < e.measured_at_ms then 0 else a.at_ms - e.measured_at_ms end as age_ms,
        case
            when a.at_ms < e.measured_at_ms then 0
            else least(a.at_ms, coalesce(e.silent_since_ms, a.at_ms)) - e.measured_at_ms
        end as unseen_ms,
        e.rate,
        e.rate_at_ms,
        a.unrecorded_copies,
        a.has_gaps
    from covered as a
    left join unseen_ends as e
        on e.cluster = a.source_cluster
        and e.topic = a.source_topic
        and e.topic_id = a.source_topic_id
        and e.partition = a.source_partition
    left join ended_topics as x
        on x.cluster = a.source_cluster
        and x.topic = a.source_topic
        and x.topic_id = a.source_topic_id
    where x.topic_id is null
),

judged as (
    select
        *,
        known_end - covered_end - written_offsets as offsets_at_risk,
        greatest(known_end - covered_end - written_offsets - unrecorded_copies, 0) as offsets_not_there,
        case
            when rate * unseen_ms is not null
                then greatest(cast(ceil(rate * unseen_ms - 0.000001) as bigint) - (known_end - high_watermark), 0)
        end as extra_estimate,
        case
            when high_watermark is null or covered_end is null then 'unknown'
            when known_end - covered_end - written_offsets = 0 then 'complete'
            else 'lagging'
        end as status
    from figures
)

select
    j.flow,
    j.source_topic,
    j.source_topic_id,
    j.source_partition,
    j.last_stable,
    j.high_watermark,
    case when j.status <> 'unknown' then j.known_end end as known_end,
    j.map_end,
    j.settled_records,
    case when j.status <> 'unknown' then j.offsets_at_risk end as records_at_risk,
    case when j.status = 'lagging' then j.level_at_ms end as level_at_ms,
    case when j.status = 'lagging' then j.lost_since_ms end as lost_since_ms,
    case
        when j.status = 'lagging'
            then nullif(greatest(j.measured_at_ms - coalesce(j.level_at_ms, j.lost_since_ms), 0), 0)
    end as at_risk_ms,
    j.measured_at_ms as ends_read_at_ms,
    j.age_ms,
    j.unseen_ms,
    round(j.rate * 1000, 3) as rate_per_second,
    j.rate_at_ms,
    case when j.status <> 'unknown' then j.extra_estimate end as extra_estimate,
    j.unrecorded_copies,
    j.has_gaps,
    case when j.status <> 'unknown' then j.offsets_not_there end as loss_at_least,
    case when j.status <> 'unknown' then j.offsets_at_risk + j.extra_estimate end as loss_at_most,
    j.status
from judged as j
order by
    j.flow nulls last,
    j.source_topic nulls last,
    j.source_topic_id nulls last,
    j.source_partition nulls last
