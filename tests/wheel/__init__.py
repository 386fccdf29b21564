"""The wheel in a virtual environment and in roots of Debian with no more than Python."""
