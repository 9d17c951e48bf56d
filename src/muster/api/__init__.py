"""What travels: frozen structs without behaviour, and the codec between them and YAML or JSON."""
