"""The screens over servers that are watched: the fleet, one of its ranks, and what these share."""
