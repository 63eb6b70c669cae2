-- An application that keeps what its users granted to agents, and its own permissions: as a builder would write it.

create table public.agent_grants (
  user_id uuid not null references auth.users (id) on delete cascade,
  client_id uuid not null,
  scope text not null,
  primary key (user_id, client_id, scope)
);
alter table public.agent_grants enable row level security;
create policy grants_mine on public.agent_grants for select to authenticated using (user_id = (select auth.uid()));
grant select on public.agent_grants to authenticated;

create function public.agent_scopes() returns text[] language sql stable
return (select coalesce(array_agg(scope order by scope), '{}') from public.agent_grants
        where client_id::text = auth.jwt() ->> 'client_id');

create table public.agent_permissions (
  user_id uuid not null references auth.users (id) on delete cascade,
  permission text not null,
  code text
);
alter table public.agent_permissions enable row level security;
create policy permissions_mine on public.agent_permissions for select to authenticated
  using (user_id = (select auth.uid()));
grant select on public.agent_permissions to authenticated;

create function public.agent_may(checks jsonb) returns jsonb language sql stable
return (
  select jsonb_agg(
    jsonb_strip_nulls(jsonb_build_object('allowed', p.permission is not null and p.code is null, 'code', p.code))
    order by c.position)
  from jsonb_array_elements(checks) with ordinality as c (value, position)
  left join public.agent_permissions p on p.permission = c.value ->> 'permission'
);

create function public.agent_scopes_broken() returns jsonb language sql stable return '{"not": "a list"}'::jsonb;
create function public.agent_scopes_hidden() returns text[] language sql stable return array['notes:write'];
revoke execute on function public.agent_scopes_hidden() from public, anon, authenticated;
