"""The test API: what AWS, other accounts and bad luck do to an account."""
