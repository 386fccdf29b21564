"""Are rounds as short without a cause as the verdict says? Causes staged, measured, and removed."""
