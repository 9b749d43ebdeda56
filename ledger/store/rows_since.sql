-- Rows of a table that a cut did not count; `counted`: of each writer the last append that it counts.
select r.*
from recorded as r
left join counted as c using (writer)
where coalesce(r.writer_epoch * 4294967296 + r.round > c.last_epoch * 4294967296 + c.last_round, true)
