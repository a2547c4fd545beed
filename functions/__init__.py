"""The Lambda functions, one package a verb; a handler parses, calls one use case and maps the outcome."""
