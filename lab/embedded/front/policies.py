"""Work of MiniStack's policy evaluator that gives the same result each time, done once.

Which policies apply is looked up for every request, as before: a changed role counts at once. Only the reading of a
policy's text is remembered, by that text, and which action fits which pattern; who is calling is no longer found out by
gathering the caller's policies; where a request is checked on several resources, its caller's policies are gathered for
the first; and a request's body is read once for all the questions about it.
"""

import contextlib
import contextvars
import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from ministack.core import iam_actions, iam_evaluator, responses
from ministack.core.router import extract_access_key_id

REMEMBERED_POLICIES: Final = 4_096
REMEMBERED_MATCHES: Final = 65_536
_caller: contextvars.ContextVar[dict[Any, Any] | None] = contextvars.ContextVar(
    "caller of this request", default=None
)


def install() -> None:
    """Put this into MiniStack's evaluator."""
    iam_actions.json = _JsonReadOnce()
    iam_evaluator.fnmatch_iam = lru_cache(REMEMBERED_MATCHES)(iam_evaluator.fnmatch_iam)
    iam_evaluator.parse_policy_document = _remembering(iam_evaluator.parse_policy_document)
    iam_evaluator.request_caller_arn = _caller_arn
    iam_evaluator.resolve_principal = _remembering_the_caller(
        iam_evaluator.resolve_principal
    )


@contextlib.contextmanager
def one_caller() -> Iterator[None]:
    """Gather a caller's policies once for all checks inside, which are those of one request."""
    token = _caller.set({})
    try:
        yield
    finally:
        _caller.reset(token)


class _JsonReadOnce:
    """The module ``json``, but that it remembers the last document; who asks must leave it as it is."""

    def __init__(self) -> None:
        self._last: tuple[Any, Any] = (None, None)

    def loads(self, text: Any) -> Any:
        """Return the document in ``text``."""
        known, document = self._last  # at once: another thread may be asking, too
        if known is not text:
            document = json.loads(text)
            self._last = (text, document)
        return document

    def __getattr__(self, name: str) -> Any:
        return getattr(json, name)


def _remembering(parse: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    parse_text = lru_cache(REMEMBERED_POLICIES)(parse)

    def parse_document(document: str | dict[str, Any]) -> list[Any]:
        # A shallow copy, so that whoever adds statements to a list adds them to their own.
        return list(parse_text(document)) if isinstance(document, str) else parse(document)

    return parse_document


def _remembering_the_caller(resolve: Callable[..., Any]) -> Callable[..., Any]:
    def resolve_principal(access_key: str, account_id: str, credential: Any = None) -> Any:
        known = _caller.get()
        if known is None:
            return resolve(access_key, account_id, credential)
        if (access_key, account_id) not in known:
            known[access_key, account_id] = resolve(access_key, account_id, credential)
        return known[access_key, account_id]

    return resolve_principal


def _caller_arn(
    headers: Mapping[str, str] | None, query: Mapping[str, Any] | None = None
) -> str:
    """Return who signed a request, or the account's root when nobody known did."""
    account_id = responses.get_account_id()
    access_key = extract_access_key_id(headers or {}, query or {})
    if access_key:
        of_session = responses._account_from_sts_session(access_key)  # noqa: SLF001 - MiniStack's version is pinned
        credential = iam_evaluator.resolve_credential(access_key, of_session or account_id)
        if (
            isinstance(credential, iam_evaluator.ResolvedCredential)
            and credential.principal_arn
        ):
            return str(credential.principal_arn)
    return f"arn:aws:iam::{account_id}:root"
