"""What users are answered: rows, status, explanations, what-ifs, and manifests as they see them again."""
