"""Everything that knows Supabase."""
