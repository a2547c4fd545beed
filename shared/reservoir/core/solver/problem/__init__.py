"""What is to be decided: demand in groups, everything that can be launched, and the rules between them."""
