"""What `spark.py` measures with, and the model of what an iteration costs on a cluster."""
