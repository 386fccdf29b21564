"""`kernel-delay revalidator`: what each round of Open vSwitch's revalidators does and takes."""
