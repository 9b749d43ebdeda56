-- What recorders saw of permissions.

-- How each kind of permissions of a cluster was read last, and of which Kafka cluster.
create or replace temporary view last_permission_readings as
with aged as (
    select
        cluster,
        cluster_id,
        kind,
        event,
        row_number() over (
            partition by cluster, kind
            order by writer_epoch desc nulls last, round desc nulls last
        ) as age
    from permissions
    where entity is null
)

select cluster, cluster_id, kind, event as reading
from aged
where age = 1;

-- Permissions that are there as far as is known: of kinds that are readable, of the Kafka cluster that was read last.
create or replace temporary view last_permissions as
with aged as (
    select
        p.*,
        row_number() over (
            partition by
                p.cluster, p.kind, p.entity, p.setting, p.host, p.operation, p.permission_type, p.resource_type,
                p.resource_name, p.pattern_type
            order by p.writer_epoch desc nulls last, p.round desc nulls last
        ) as age
    from permissions as p
    where p.entity is not null
)

select
    a.cluster,
    a.kind,
    a.entity,
    a.setting,
    a.value,
    a.host,
    a.operation,
    a.permission_type,
    a.resource_type,
    a.resource_name,
    a.pattern_type
from aged as a
inner join last_permission_readings as r using (cluster, cluster_id, kind)
where a.age = 1 and a.event = 'present' and r.reading = 'readable';
