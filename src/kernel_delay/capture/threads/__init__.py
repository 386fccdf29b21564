"""From the programs' rings of records to what a Sample says of each thread."""
