"""What is filled in, checked and refused before an object is stored."""
