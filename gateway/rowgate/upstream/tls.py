"""Whom the gateway trusts at a plugin's https URL, and how it identifies itself there."""

from __future__ import annotations

import ssl

from rowgate.config.plugin import Tls
from rowgate.errors import StartError


def tls_context(tls: Tls | None) -> ssl.SSLContext:
    """Certificates are always verified, names too. Raises StartError for files that cannot be used."""
    if tls is None:
        return ssl.create_default_context()
    try:
        context = ssl.create_default_context(cafile=tls.ca)
    except (OSError, ValueError):
        raise StartError(f"{tls.ca} holds no certificates that can be read.") from None
    if tls.certificate is not None:
        try:
            # Without a password the library would ask for one on the terminal.
            context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
        except (OSError, ValueError):
            raise StartError(f"{tls.certificate} and {tls.key} are no certificate and key that fit.") from None
    return context


def _no_password() -> str:
    return ""
