-- A table with the policies that a builder would write, for tests of the data plane.

create table public.notes (
  id bigint generated always as identity primary key,
  owner uuid not null default auth.uid() references auth.users (id) on delete cascade,
  title text not null check (title <> '')
);

alter table public.notes enable row level security;
create policy notes_mine on public.notes to authenticated
  using (owner = (select auth.uid())) with check (owner = (select auth.uid()));

grant select, insert, update, delete on public.notes to authenticated;
grant all on public.notes to service_role;

create function public.whoami() returns jsonb language sql stable
return jsonb_build_object('role', current_user, 'uid', auth.uid(), 'client_id', auth.jwt() ->> 'client_id');
