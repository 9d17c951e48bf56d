"""Objects as rows of a `Table`, as `kubectl get` prints them."""
