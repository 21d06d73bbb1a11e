"""What sessions are worth to the people whose searches a log holds."""
