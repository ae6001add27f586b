"""What every package may import."""
