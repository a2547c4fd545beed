"""What botocore's paginators return: answers, page by page, that can be searched."""

from collections.abc import Iterator
from typing import Any

import jmespath


class Pages(list[dict[str, Any]]):
    """Pages of a listing; a list of them is all that a test needs to give."""

    def search(self, expression: str) -> Iterator[Any]:
        """Yield what a JMESPath expression finds, over all pages, as ``PageIterator.search`` of botocore does."""
        for page in self:
            yield from jmespath.search(expression, page)
