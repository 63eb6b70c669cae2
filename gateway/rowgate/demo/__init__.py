"""The embedded default: a Supabase project on loopback, made of a real PostgreSQL, a real PostgREST and a stand-in
for Supabase Auth. It is for trying rowgate out and for its tests; nothing here is meant to serve anybody else."""
