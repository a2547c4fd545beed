"""Everything outside the process: the only importers of boto3."""
