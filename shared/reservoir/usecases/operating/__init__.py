"""What operators do by hand."""
