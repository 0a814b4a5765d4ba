"""Learning from reports: what perturbed ratings tell, all together."""
