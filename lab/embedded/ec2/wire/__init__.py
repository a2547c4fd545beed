"""EC2's results as bytes: writers made once from botocore's service model."""
