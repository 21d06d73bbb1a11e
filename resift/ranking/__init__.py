"""What ranks: feedback, fusion, late interaction, spelling, and why."""
