"""Grove's kinds on the wire: sets of cliques, scaling groups, gangs and topology bindings."""
