"""EC2's wire side: requests, answers, errors, filters, tags, and what moto answers for us."""
