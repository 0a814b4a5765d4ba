"""What may be said: scales, channels, policies and reports, and what they cost."""
