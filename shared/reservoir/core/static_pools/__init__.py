"""Static pools: nodes that exist whether or not there is demand for them."""
