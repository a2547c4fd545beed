"""From text to typed fields, with every problem that was found on the way."""
