"""`python -m rowgate`."""

from rowgate.cli import main

main(prog_name="rowgate")
