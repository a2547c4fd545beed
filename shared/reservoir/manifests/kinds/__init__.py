"""The kinds of manifests and the sections that they are made of."""
