-- Which spans tell what of the cluster `here` has not come to the cluster `there`: `touched`. Those which flows have written
-- here across the place up to where all is there. `measured`: the last ends of what may be lost; of a topic that was brought
-- here, and that no flow takes back yet, how many offsets flows have written (`brought_offsets`).
create temporary table taken as
select m.source_topic as topic, m.source_topic_id as topic_id, m.source_partition as partition, d.covered_end
from last_claims as c
inner join last_syncs as m on m.flow = c.flow
inner join covered_ends as d using (map_number)
where c.source_cluster = getvariable('here') and c.target_cluster = getvariable('there');

create temporary table measured as
select e.*, b.brought_offsets
from measured_ends as e
left join brought_ends as b
    on b.cluster = e.cluster
    and b.topic = e.topic
    and b.topic_id = e.topic_id
    and b.partition = e.partition
    and b.origin = getvariable('there')
    and b.topic not in (select topic from taken)
left join ended_topics as x
    on x.cluster = e.cluster
    and x.topic = e.topic
    and x.topic_id = e.topic_id
where e.cluster = getvariable('here') and x.topic_id is null;

create temporary table touched as
select n.span_number
from taken as t
inner join numbered_spans as n
    on n.target_cluster = getvariable('here')
    and n.target_topic = t.topic
    and n.target_topic_id = t.topic_id
    and n.target_partition = t.partition
    and n.target_end > t.covered_end;
