-- API keys of applications, for a server with `auth: {mode: api-key, lookup: {function: rowgate_api_key}}`.
--
-- The table holds hashes only: a key is random, so nobody can find it from its SHA-256. Make one with
-- `rowgate api-keys new`, give the key to the application and insert its hash:
--
--   insert into rowgate.api_keys (key_sha256, name, subject, scopes)
--   values ('…', 'nightly-2027', 'nightly-report', '{notes:read}');
--
-- Revoke one with `update rowgate.api_keys set revoked_at = now() where name = '…'`. The gateway keeps an answer for
-- `lookup.cache`, so that is how long a revoked key still works.

-- No API role may look into this schema; do not add it to the exposed ones.
create schema if not exists rowgate;
revoke all on schema rowgate from public;

create table if not exists rowgate.api_keys (
  id bigint generated always as identity primary key,
  key_sha256 text not null unique check (key_sha256 ~ '^[0-9a-f]{64}$'),
  name text not null unique check (name <> ''),
  subject text not null check (subject <> ''),
  scopes text[] not null default '{}',
  roles text[] not null default '{}',
  expires_at timestamptz,
  revoked_at timestamptz,
  created_at timestamptz not null default now()
);
alter table rowgate.api_keys enable row level security;
revoke all on rowgate.api_keys from public, anon, authenticated;

create or replace function public.rowgate_api_key(key_sha256 text)
returns table (name text, subject text, scopes text[], roles text[], expires_at timestamptz)
language sql stable security definer set search_path = ''
as $$
  select k.name, k.subject, k.scopes, k.roles, k.expires_at
  from rowgate.api_keys k
  where k.key_sha256 = rowgate_api_key.key_sha256
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now());
$$;

-- Functions in `public` are given to every API role by default: only the gateway's secret key may call this one.
revoke execute on function public.rowgate_api_key(text) from public, anon, authenticated;
grant execute on function public.rowgate_api_key(text) to service_role;

notify pgrst, 'reload schema';
