"""`errors.md`: every refusal, from the tree in `rowgate.errors`."""

from __future__ import annotations

from rowgate.errors import GatewayError

GROUPS = {
    "1": "RG1xx: edge and protocol",
    "2": "RG2xx: authentication",
    "3": "RG3xx: policy",
    "4": "RG4xx: limits",
    "5": "RG5xx: upstream",
    "6": "RG6xx: the authorization server",
    "7": "RG7xx: the store",
    "9": "RG9xx: configuration and start",
}


def body() -> str:
    parts: list[str] = []
    group = ""
    for error in refusals():
        if error.code[2] != group:
            group = error.code[2]
            parts.append(f"## {GROUPS[group]}")
        parts.append(f"### {error.code}\n\n**{error.sentence}**\n\n{_numbers(error)}\n\n{error.hint}")
    return "\n\n".join(parts)


def refusals() -> list[type[GatewayError]]:
    """Every class with a code of its own, in the order of the codes."""
    found = {GatewayError.code: GatewayError}
    waiting = list(GatewayError.__subclasses__())
    while waiting:
        error = waiting.pop()
        waiting += error.__subclasses__()
        if "code" in vars(error) and found.setdefault(error.code, error) is not error:
            raise ValueError(f"two errors have the code {error.code}")
    return [found[code] for code in sorted(found)]


def _numbers(error: type[GatewayError]) -> str:
    if error.code.startswith("RG9"):
        return "Ends the start: the command prints it, and no client ever sees it."
    return f"HTTP {error.status}, JSON-RPC {error.rpc_code}."
