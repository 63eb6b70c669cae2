-- Counters that the replicas of rowgate share, for who has no Redis. Printed by `rowgate limits sql`; may be run again.
--
-- A fixed window for each budget. `key` is a keyed hash: no subject and no address can be read from it. The table is
-- unlogged: after a crash of the database every budget is full again.

create schema if not exists rowgate;
revoke all on schema rowgate from public;

create unlogged table if not exists rowgate.limit_windows (
    key text primary key check (length(key) = 32),
    used integer not null,
    ends timestamptz not null
) with (fillfactor = 60);
alter table rowgate.limit_windows enable row level security;
revoke all on rowgate.limit_windows from public;

-- Charges all budgets or none. Answers, for each in the order given, what was used before and how many seconds its
-- window still has; `charged` is the same in every row.
create or replace function rowgate.charge_limits(keys text[], amounts integer[], periods integer[], costs integer[])
returns table (used integer, remaining double precision, charged boolean)
language plpgsql
volatile
security definer
set search_path = ''
as $$
declare
    moment timestamptz;
    fit boolean;
    locked integer;
begin
    if random() < 0.005 then
        delete from rowgate.limit_windows w
        where w.key in (
            select e.key from rowgate.limit_windows e where e.ends < clock_timestamp() limit 1000 for update skip locked
        );
    end if;

    loop
        insert into rowgate.limit_windows (key, used, ends)
        select k.key, 0, '-infinity' from unnest(keys) as k (key) order by k.key
        on conflict do nothing;
        -- In the order of the keys, so that no two requests wait for each other in a circle.
        perform from rowgate.limit_windows w where w.key = any (keys) order by w.key for update;
        get diagnostics locked = row_count;
        -- Fewer when somebody else's sweep was quicker.
        exit when locked = cardinality(keys);
    end loop;
    moment := clock_timestamp();

    select bool_and(case when w.ends > moment then w.used else 0 end + c.cost <= c.amount)
    into fit
    from unnest(keys, amounts, costs) as c (key, amount, cost)
    join rowgate.limit_windows w on w.key = c.key;

    return query
    select case when w.ends > moment then w.used else 0 end,
        case when w.ends > moment then extract(epoch from w.ends - moment)::double precision else c.period end,
        fit
    from unnest(keys, periods) with ordinality as c (key, period, place)
    join rowgate.limit_windows w on w.key = c.key
    order by c.place;

    if fit then
        update rowgate.limit_windows w
        set used = case when w.ends > moment then w.used else 0 end + c.cost,
            ends = case when w.ends > moment then w.ends else moment + make_interval(secs => c.period) end
        from unnest(keys, periods, costs) as c (key, period, cost)
        where w.key = c.key;
    end if;
end
$$;
revoke all on function rowgate.charge_limits(text[], integer[], integer[], integer[]) from public;

-- The gateway signs in as a role that may do nothing but this. Give it a password of its own:
--     alter role rowgate_limits login password '...';
do $$
begin
    if not exists (select from pg_roles where rolname = 'rowgate_limits') then
        create role rowgate_limits nologin;
    end if;
end
$$;
grant usage on schema rowgate to rowgate_limits;
grant execute on function rowgate.charge_limits(text[], integer[], integer[], integer[]) to rowgate_limits;
