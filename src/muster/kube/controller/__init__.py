"""Controllers on any cluster: reflectors, one cache, one work queue; pure functions decide."""
