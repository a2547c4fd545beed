"""A deployment as its owner writes it: one checked-in settings file, which synthesis and the command line read."""
