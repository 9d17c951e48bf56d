"""Views of PodCliqueSets."""
