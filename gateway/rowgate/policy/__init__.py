"""May they: the declared capabilities, and one decision that lists and calls share. `catalogs` is the door.

Nothing is imported here: validating a configuration needs `names`, and not the protocol's models.
"""
