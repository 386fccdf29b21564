"""Who waited for whom: processes followed from a wait to whoever it is for."""
