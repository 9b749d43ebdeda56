-- Spans by number, and which of them a later row of their map cuts, that took records back: `cut_spans`. What others say is
-- all theirs, or nothing.
create temporary table numbered_spans as
select *, writer_epoch * 4294967296 + round as place, row_number() over () as span_number
from spans;

create temporary table cut_spans as
select distinct n.span_number
from numbered_spans as n
inner join numbered_spans as c using (flow, source_topic, source_topic_id, source_partition)
where c.kind = 'superseded' and n.source_start < c.source_start and n.source_end > c.source_start;
