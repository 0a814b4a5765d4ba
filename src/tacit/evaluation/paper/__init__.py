"""The paper's figures and tables: declared, computed, judged and drawn."""
