-- Spans across an offset from which a later row of their map took records back: `touched`. What others say is all theirs, or
-- nothing.
create temporary table numbered_spans as
select *, row_number() over () as span_number
from spans;

create temporary table touched as
select distinct n.span_number
from numbered_spans as n
inner join numbered_spans as c using (flow, source_topic, source_topic_id, source_partition)
where c.kind = 'superseded' and n.source_start < c.source_start and n.source_end > c.source_start;
