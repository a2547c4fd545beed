"""What `make release` writes: the stack as a plain template, for accounts that do not use the CDK."""
