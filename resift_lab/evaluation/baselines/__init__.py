"""What the encoders are measured against."""
