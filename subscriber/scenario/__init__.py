"""psql sessions as tests, and the private servers they run on."""
