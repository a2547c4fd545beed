"""A deployment from its settings file to AWS and back: deploy, diff, destroy."""
