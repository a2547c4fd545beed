"""Static pools: nodes that stand whether or not anything wants them."""
