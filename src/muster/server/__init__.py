"""What listens: the REST face of the embedded cluster, and whatever else answers on a socket."""
