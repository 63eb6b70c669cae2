-- Organisations, their members and their notes. Row Level Security decides everything: the plugin has no key of its
-- own, it sends the token of whoever calls.

-- Not among the schemas that PostgREST serves: nothing in it is an endpoint.
create schema private;
revoke all on schema private from public;
grant usage on schema private to authenticated;

create table public.organisations (
  id uuid primary key default gen_random_uuid(),
  name text not null check (char_length(name) between 1 and 100)
);

create table public.memberships (
  organisation_id uuid not null references public.organisations on delete cascade,
  user_id uuid not null references auth.users on delete cascade,
  role text not null check (role in ('owner', 'editor', 'viewer')),
  primary key (organisation_id, user_id)
);
create index memberships_user_id on public.memberships (user_id);

create table public.notes (
  id uuid primary key default gen_random_uuid(),
  organisation_id uuid not null references public.organisations on delete cascade,
  author_id uuid default auth.uid() references auth.users on delete set null,
  title text not null check (char_length(title) between 1 and 200 and title !~ '[[:cntrl:]]'),
  body text not null default '' check (char_length(body) <= 20000),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  search tsvector generated always as (to_tsvector('english', title || ' ' || body)) stored
);
create index notes_organisation_id on public.notes (organisation_id, updated_at desc);
create index notes_author_id on public.notes (author_id);
create index notes_search on public.notes using gin (search);

create function private.touch() returns trigger language plpgsql set search_path = '' as $$
begin
  new.updated_at = now();
  return new;
end
$$;
revoke all on function private.touch() from public;
create trigger notes_touch before update on public.notes for each row execute function private.touch();

-- The organisations in which the caller has one of these roles. It reads memberships past their own policies, so no
-- policy asks another one; the empty search_path keeps anybody from putting a table of theirs in between.
create function private.organisations_as(variadic roles text[]) returns setof uuid
language sql stable security definer set search_path = '' as $$
  select organisation_id from public.memberships
  where user_id = (select auth.uid()) and role = any (roles)
$$;
revoke all on function private.organisations_as(text[]) from public;
grant execute on function private.organisations_as(text[]) to authenticated;

alter table public.organisations enable row level security;
alter table public.memberships enable row level security;
alter table public.notes enable row level security;

-- `(select …)` is evaluated once a statement, not once a row.
create policy "members see their organisations" on public.organisations for select to authenticated
  using (id in (select private.organisations_as('owner', 'editor', 'viewer')));

create policy "users see their own memberships" on public.memberships for select to authenticated
  using (user_id = (select auth.uid()));

create policy "members read notes" on public.notes for select to authenticated
  using (organisation_id in (select private.organisations_as('owner', 'editor', 'viewer')));

create policy "owners and editors write notes in their own name" on public.notes for insert to authenticated
  with check (
    organisation_id in (select private.organisations_as('owner', 'editor'))
    and author_id = (select auth.uid())
  );

create policy "owners and editors change notes" on public.notes for update to authenticated
  using (organisation_id in (select private.organisations_as('owner', 'editor')))
  with check (organisation_id in (select private.organisations_as('owner', 'editor')));

create policy "owners and authors delete notes" on public.notes for delete to authenticated
  using (
    organisation_id in (select private.organisations_as('owner'))
    or (
      author_id = (select auth.uid())
      and organisation_id in (select private.organisations_as('owner', 'editor', 'viewer'))
    )
  );

-- A policy says which rows, a grant says which columns. Projects differ in what they grant by default, so begin with
-- nothing. Nobody signs for somebody else, moves a note to another organisation, or changes who is a member.
revoke all on public.organisations, public.memberships, public.notes from anon, authenticated;
grant select on public.organisations, public.memberships to authenticated;
grant
  select, delete,
  insert (organisation_id, title, body),
  update (title, body)
  on public.notes to authenticated;
