"""Other people's libraries, each called by a small driver of its own in a process of its own."""
