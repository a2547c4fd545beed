"""Models of the protocols between functions, for the model checker spin (docs/model-checking.md)."""
