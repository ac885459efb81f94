"""Kerberos for `requests`: every request says who asks, every answer who answers.

Imported where a cluster is secure: ``requests_gssapi`` comes with the extra ``kerberos``.
"""

from __future__ import annotations

import logging
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests
from gssapi.raw.misc import GSSError
from requests.auth import AuthBase
from requests_gssapi import REQUIRED, HTTPSPNEGOAuth
from requests_gssapi.exceptions import MutualAuthenticationError, SPNEGOExchangeError

from submarine_engine.errors import KerberosError
from submarine_engine.kerberos import credentials, explain, not_proven

# It logs each failure with a traceback, which a notebook would show; errors here are words.
logging.getLogger("requests_gssapi").addHandler(logging.NullHandler())
logging.getLogger("requests_gssapi").propagate = False


class Spnego(AuthBase):
    """Lets a session's requests go to the cluster's own pages as the user's ticket says.

    Each request has a handshake of its own: threads share a session, and a server that was proven
    once says nothing of the next answer.

    Raises
    ------
    KerberosError
        From the request: there is no ticket for that server, or the server has not proven itself.
    """

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Say who asks, before the server asks for it: one way there and back instead of two.

        A token in the address says it, too: HDFS looks at nothing else then, and proves nothing.
        """
        if "delegation" in parse_qs(urlsplit(request.url or "").query):
            return request
        answered: requests.PreparedRequest = _Request()(request)
        return answered


def secure(session: requests.Session) -> None:
    """Let a session speak Kerberos.

    Without cookies: Hadoop's outlives the ticket by hours, and one host's services refuse each
    other's.
    """
    session.auth = Spnego()
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))


def _host(url: str | None) -> str:
    return urlsplit(url or "").netloc


class _Request(HTTPSPNEGOAuth):  # type: ignore[misc] # requests_gssapi is not typed
    def __init__(self) -> None:
        # An answer that refuses need not be proven: its words are told, nothing is done by them.
        super().__init__(
            REQUIRED,
            opportunistic_auth=True,
            sanitize_mutual_error_response=False,
            creds=credentials(),
        )
        self._asked = ""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        self._asked = _host(request.url)
        prepared: requests.PreparedRequest = super().__call__(request)
        return prepared

    def generate_request_header(self, response: Any, host: str, is_preemptive: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - its signature
        try:
            return super().generate_request_header(response, host, is_preemptive)
        except (SPNEGOExchangeError, GSSError) as error:
            raise explain(host) or KerberosError(
                f"SPNEGO fails: {error}", where=host, fix="see `klist`; kinit"
            ) from error

    def handle_response(self, response: requests.Response, **options: Any) -> requests.Response:  # noqa: ANN401 - requests' own
        if _host(response.url) != self._asked:
            # Sent on, as from a NameNode to a DataNode: the token in the address speaks for it, and
            # whoever it is gets no ticket.
            return response
        try:
            answer: requests.Response = super().handle_response(response, **options)
        except MutualAuthenticationError as error:
            response.close()
            raise not_proven(urlsplit(response.url).hostname or response.url) from error
        return answer
