-- Two organisations that know nothing of each other: Alice owns Acme, Bob owns Globex. Both users must exist already;
-- they are found by their addresses.

insert into public.organisations (id, name) values
  ('ac3e0000-0000-4000-8000-000000000001', 'Acme'),
  ('910be000-0000-4000-8000-000000000002', 'Globex');

insert into public.memberships (organisation_id, user_id, role)
select owned.organisation_id, users.id, 'owner'
from (values
  ('ac3e0000-0000-4000-8000-000000000001'::uuid, 'alice@example.com'),
  ('910be000-0000-4000-8000-000000000002'::uuid, 'bob@example.com')
) as owned (organisation_id, email)
join auth.users as users using (email);

insert into public.notes (id, organisation_id, author_id, title, body, created_at, updated_at)
select seeded.id, members.organisation_id, members.user_id, seeded.title, seeded.body, seeded.written, seeded.written
from (values
  ('ac3e0000-0000-4000-8000-0000000000a1'::uuid, 'Acme', 'Rocket skates roadmap',
    'The skates ship in March. The brakes are late: the supplier moved the bearings to April.',
    '2026-10-05 09:00+00'::timestamptz),
  ('ac3e0000-0000-4000-8000-0000000000a2'::uuid, 'Acme', 'Retro of the anvil launch',
    'Deliveries from above went well. Customers ask for a quieter anvil and a longer warranty.',
    '2026-10-12 14:30+00'::timestamptz),
  ('ac3e0000-0000-4000-8000-0000000000a3'::uuid, 'Acme', 'Hiring plan',
    'Two mechanics by spring, and somebody who writes the manuals.',
    '2026-11-02 08:15+00'::timestamptz),
  ('910be000-0000-4000-8000-0000000000b1'::uuid, 'Globex', 'Weather machine roadmap',
    'Fog is done, hail is next. Thunder waits for the permit of the city.',
    '2026-10-07 10:00+00'::timestamptz),
  ('910be000-0000-4000-8000-0000000000b2'::uuid, 'Globex', 'Budget for the volcano office',
    'Rent is low, insurance is not. The lift needs a second quote.',
    '2026-10-20 16:45+00'::timestamptz),
  ('910be000-0000-4000-8000-0000000000b3'::uuid, 'Globex', 'Hammock district survey',
    'Residents prefer cotton. One in three would pay for shade.',
    '2026-11-09 11:20+00'::timestamptz)
) as seeded (id, organisation, title, body, written)
join public.organisations on organisations.name = seeded.organisation
join public.memberships as members on members.organisation_id = organisations.id;
