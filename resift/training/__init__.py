"""What makes or trains vectors with torch. Nothing in here is needed at query time."""
