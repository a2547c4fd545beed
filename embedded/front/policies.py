"""Work of MiniStack's policy evaluator that gives the same result for every request, done once.

Which policies apply is looked up for every request, as before: a changed role counts at once. Only the reading of a
policy's text is remembered, by that text; and who is calling is no longer found out by gathering the caller's policies.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from ministack.core import iam_evaluator, responses
from ministack.core.router import extract_access_key_id

REMEMBERED_POLICIES: Final = 4_096


def install() -> None:
    """Put both into MiniStack's evaluator."""
    iam_evaluator.parse_policy_document = _remembering(iam_evaluator.parse_policy_document)
    iam_evaluator.request_caller_arn = _caller_arn


def _remembering(parse: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    parse_text = lru_cache(REMEMBERED_POLICIES)(parse)

    def parse_document(document: str | dict[str, Any]) -> list[Any]:
        # A shallow copy, so that whoever adds statements to a list adds them to their own.
        return list(parse_text(document)) if isinstance(document, str) else parse(document)

    return parse_document


def _caller_arn(headers: Mapping[str, str] | None, query: Mapping[str, Any] | None = None) -> str:
    """Return who signed a request, or the account's root when nobody known did."""
    account_id = responses.get_account_id()
    access_key = extract_access_key_id(headers or {}, query or {})
    if access_key:
        of_session = responses._account_from_sts_session(access_key)  # noqa: SLF001 - MiniStack's version is pinned
        credential = iam_evaluator.resolve_credential(access_key, of_session or account_id)
        if isinstance(credential, iam_evaluator.ResolvedCredential) and credential.principal_arn:
            return str(credential.principal_arn)
    return f"arn:aws:iam::{account_id}:root"
