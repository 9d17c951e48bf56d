"""A history checker for the live loop: what was written and stored while faults happened, judged offline (I1-I11)."""
