"""`kernel-delay datapath-ops`: what ovs-vswitchd asks of the kernel's datapath, and the answers."""
