"""Exit codes, for supervisors: a configuration that is not valid will not become so by restarting."""

FINDINGS = 1
USAGE = 2
START = 3
CONFIGURATION = 78
"""EX_CONFIG of sysexits.h."""
