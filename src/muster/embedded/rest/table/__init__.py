"""Objects as rows of a table, as `kubectl get` shows them."""
