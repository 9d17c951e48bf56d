"""The only place that puts the parts together: a verb reads its options, calls a function here, and prints.

Rule: no other module of `cli` imports `scheduler`, `webhook`, `embedded`, `observability` or `kube.client`; an import
contract in pyproject.toml holds it.
"""
