-- name:    consumed_not_copied
-- answers: what has each group of one cluster consumed that is not at another yet?
-- grain:   group_id, topic, partition, other_topic, range_start
-- reads:   ahead_pieces, answered_pairs, asked_groups, group_reads
-- params:  from_cluster string, to_cluster string
-- columns: group_id string, topic string, partition int, other_topic string, range_start bigint, range_end bigint,
--          offsets bigint
--
-- Ranges of offsets of the first cluster, as far as the ledger knows. When they are copied they are appended behind the
-- place where the group continues, and read again. Control records are among them: nobody has read them there yet.
select
    g.group_id,
    p.here_topic as topic,
    p.here_partition as partition,
    p.there_topic as other_topic,
    x.piece_start as range_start,
    least(x.piece_end, r.here_to) as range_end,
    least(x.piece_end, r.here_to) - x.piece_start as offsets
from answered_pairs as p
inner join params as a
    on a.from_cluster = p.here_cluster
    and a.to_cluster = p.there_cluster
inner join asked_groups as g using (pair_number)
inner join group_reads as r using (asked_number)
inner join ahead_pieces as x
    on x.pair_number = p.pair_number
    and x.piece_start < r.here_to
where coalesce(g.topic_id = p.here_topic_id, g.committed_offset is null)
order by
    group_id nulls last,
    topic nulls last,
    partition nulls last,
    other_topic nulls last,
    range_start nulls last
