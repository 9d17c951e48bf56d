"""Every setting of the control plane."""
