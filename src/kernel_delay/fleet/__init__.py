"""Many nodes' recordings, as recording/fleet_tables.py exports them: who loses most."""
