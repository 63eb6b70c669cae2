"""Writes the generated half of the pages in `docs/reference`: `make docs`."""
