"""What several tests share: factories and generators."""
