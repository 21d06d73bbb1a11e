"""What ranks: feedback, late interaction, spelling, and why."""
