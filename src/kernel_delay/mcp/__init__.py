"""Recordings for assistants that are programs: a server of the Model Context Protocol."""
