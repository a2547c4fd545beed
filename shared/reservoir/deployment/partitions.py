"""Places in AWS that this product does not support, and why: refused before anything is changed."""

from typing import Final

_NO_PRICES: Final = (
    "there is no price list there, so that nothing could be bought on demand"
)
# By how their regions begin.
_UNSERVED: Final = (
    (
        "cn-",
        "prices in China are in CNY, and nothing here counts in another currency than USD",
    ),
    ("us-gov-", _NO_PRICES),
    ("us-iso", _NO_PRICES),
    ("eu-isoe-", _NO_PRICES),
    ("eusc-", "its price list is another one, which nothing here asks"),
)


def unserved(region: str) -> str | None:
    """Return why a deployment in the region would not work; None: it does."""
    return next((reason for prefix, reason in _UNSERVED if region.startswith(prefix)), None)
