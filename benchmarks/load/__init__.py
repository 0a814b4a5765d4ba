"""Load for the service: what is sent, who sends it, and the servers it is sent to."""
