"""What a gang still needs, as a tree of requirements."""
