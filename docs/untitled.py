"""JSON Schemas in which only types have titles: generators of code make a type of each title that they find."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema


class Untitled(GenerateJsonSchema):
    """Generates schemas whose properties have no title of their own."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return that a property's name is enough, whatever its type."""
        del schema
        return False
