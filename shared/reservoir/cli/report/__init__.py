"""A report on some days: one page that needs no server and no network."""
