-- What a Supabase project has before the builder's first migration, as far as Row Level Security and PostgREST can
-- see it. Runs at each start, so every statement bears repetition.

do $roles$
declare
  wanted text[][] := array[
    ['anon', 'nologin noinherit'],
    ['authenticated', 'nologin noinherit'],
    ['service_role', 'nologin noinherit bypassrls'],
    -- PostgREST signs in as this one and becomes one of the three above. Its password is set at start.
    ['authenticator', 'login noinherit'],
    ['supabase_auth_admin', 'nologin noinherit createrole']
  ];
  item text[];
begin
  foreach item slice 1 in array wanted loop
    if not exists (select from pg_roles where rolname = item[1]) then
      execute format('create role %I %s', item[1], item[2]);
    end if;
  end loop;
end
$roles$;

grant anon, authenticated, service_role to authenticator;

create schema if not exists auth authorization supabase_auth_admin;
create schema if not exists extensions;
grant usage on schema public, auth, extensions to anon, authenticated, service_role;
alter database postgres set search_path to "$user", public, extensions;

-- PostgREST leaves the verified claims in a setting; older versions left one setting for each claim.
create or replace function auth.jwt() returns jsonb language sql stable
return coalesce(
  nullif(current_setting('request.jwt.claim', true), ''),
  nullif(current_setting('request.jwt.claims', true), '')
)::jsonb;

create or replace function auth.uid() returns uuid language sql stable
return coalesce(
  nullif(current_setting('request.jwt.claim.sub', true), ''),
  nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'
)::uuid;

create or replace function auth.role() returns text language sql stable
return coalesce(
  nullif(current_setting('request.jwt.claim.role', true), ''),
  nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role'
);

create or replace function auth.email() returns text language sql stable
return coalesce(
  nullif(current_setting('request.jwt.claim.email', true), ''),
  nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'email'
);

-- The columns that builders' triggers and foreign keys use. Nobody but the owner may read it.
create table if not exists auth.users (
  id uuid primary key,
  aud text not null default 'authenticated',
  role text not null default 'authenticated',
  email text unique,
  phone text unique,
  email_confirmed_at timestamptz,
  confirmed_at timestamptz generated always as (email_confirmed_at) stored,
  last_sign_in_at timestamptz,
  banned_until timestamptz,
  raw_app_meta_data jsonb not null default '{}',
  raw_user_meta_data jsonb not null default '{}',
  is_anonymous boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
alter table auth.users enable row level security;
alter table auth.users owner to supabase_auth_admin;

-- The Supabase CLI keeps the list of what ran in this table.
create schema if not exists supabase_migrations;
create table if not exists supabase_migrations.schema_migrations (
  version text primary key,
  statements text[],
  name text
);

notify pgrst, 'reload schema';
