"""What is decoded, defaulted, validated and rejected before an object is stored."""
