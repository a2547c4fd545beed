"""What AWS has too little room for: sizes, counts and lengths, at the services' APIs and in templates."""
