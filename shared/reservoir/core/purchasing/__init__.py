"""Buying capacity: what may be bought, for how much, and what is known of each purchase."""
