"""What this kernel, this user and this target allow: facts read, and findings made of them."""
