"""Instance types, on-demand and Spot prices."""
