"""Hearing reports: the service provider's side, which never sees a true rating."""
