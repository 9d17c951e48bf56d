"""What a pod asks for, and which gang it joins."""
