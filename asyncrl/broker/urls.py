"""Redis URLs: what they mean and how to show them without their secrets."""

from __future__ import annotations

import re
from typing import Any, cast

from redis.asyncio.connection import parse_url

from asyncrl.errors import ConfigError

# Greedy up to the last "@", so that a password with unescaped "/", "#" or "@" is hidden as well.
_USERINFO = re.compile(r"^([A-Za-z0-9+.-]*://)?(.*)@", re.DOTALL)
_SECRET_QUERY = re.compile(r"([?&][^=&]*password[^=&]*=)[^&]*", re.IGNORECASE)
_ALLOWED = {
    "ssl_ca_certs", "ssl_ca_path", "ssl_ca_data", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile",
    "ssl_check_hostname", "ssl_password", "ssl_min_version", "ssl_ciphers",
    "host", "port", "path", "db", "username", "password", "connection_class",
}  # fmt: skip
"""Options a URL may set; the others (time-outs, protocol, decoding) are asyncrl's to choose."""


def redact(url: str) -> str:
    """Return `url` with every password replaced by ``***``, fit for logs and messages."""

    def hide(found: re.Match[str]) -> str:
        user, colon, _ = found[2].partition(":")
        return f"{found[1] or ''}{user if colon else ''}{colon}***@"

    return _SECRET_QUERY.sub(r"\1***", _USERINFO.sub(hide, url))


def connection_options(url: str) -> dict[str, Any]:
    """Return what redis-py's connections need to know from `url`.

    Raises `ConfigError` (without the password) for a URL that is not one, or has options that are
    not a URL's to set.
    """
    fix = "write redis://[user:password@]host:port/db, rediss://... or unix:///path/to/socket"
    try:
        options = cast("dict[str, Any]", parse_url(url))
    except ValueError:
        raise ConfigError("url", redact(url), "not a Redis URL", fix) from None
    if url.startswith("unix:") and "path" not in options:
        raise ConfigError("url", redact(url), "names no socket", fix)
    unknown = sorted(set(options) - _ALLOWED)
    if unknown:
        raise ConfigError(
            "url",
            redact(url),
            f"option {', '.join(unknown)} cannot be set in a URL",
            "leave it out; time-outs are set in BrokerConfig",
        )
    return options


def address_of(options: dict[str, Any]) -> str:
    """Return where the server is, for messages: ``host:port`` or the socket's path."""
    if "path" in options:
        return f"unix socket {options['path']}"
    return f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
