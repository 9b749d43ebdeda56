-- The hours in which rows `behind` a place were recorded, with how many there are of each. An hour is an end where the rows
-- that were recorded until then are those up to a place of each writer: a writer whose clock went back may have earlier
-- rows in a later hour.
with of_writers as (
    select
        recorded_at_ms // 3600000 as hour,
        writer,
        count(*) as rows,
        min(writer_epoch * 4294967296 + round) as first_place,
        max(writer_epoch * 4294967296 + round) as last_place
    from behind
    group by hour, writer
),

compared as (
    select
        *,
        lead(hour) over same as next_hour,
        max(last_place) over (same rows between unbounded preceding and current row) as until_place,
        min(first_place) over (same rows between 1 following and unbounded following) as next_place
    from of_writers
    window same as (partition by writer order by hour)
),

mixed as (
    select hour, next_hour
    from compared
    where until_place >= next_place
)

select
    o.hour,
    cast(sum(o.rows) as bigint) as rows,
    not exists (select 1 from mixed as m where m.hour <= o.hour and o.hour < m.next_hour) as is_end
from of_writers as o
group by o.hour
order by o.hour
