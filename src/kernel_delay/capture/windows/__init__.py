"""When a window opens and closes, by the clock or by triggers, and what is read as it does."""
