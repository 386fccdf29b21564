"""What the tool does on a real kernel, with real processes and files, beside what others say."""
