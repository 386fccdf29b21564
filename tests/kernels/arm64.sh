#!/bin/bash
# Runs in an arm64 guest, as its first process once there is a disk: arm64.sh PROJECT RESULTS CACHE OVS
# The command in RESULTS/command runs in PROJECT. All four are this machine's folders, with the same
# paths. The guest's writes to PROJECT stay in its memory, and in OVS there is nothing to write.
# A fifth argument says that the kernel has modules.
set -u
project=$1 results=$2 cache=$3 ovs=$4 modules=${5:-}
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/root TERM=dumb LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
for folder in dev/shm tmp run var/tmp; do mount -t tmpfs guest "/$folder"; done
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
ip link set lo up
ldconfig
shared=trans=virtio,version=9p2000.L,msize=512000
if [ -n "$modules" ]; then
	mkdir -p /lib/modules
	mount -t 9p -o "ro,cache=loose,$shared" modules /lib/modules
	modprobe --all overlay openvswitch tun veth
fi

mkdir -p "$project" /run/project /run/upper /run/work
mount -t 9p -o "ro,cache=loose,$shared" project /run/project
mount -t overlay -o lowerdir=/run/project,upperdir=/run/upper,workdir=/run/work project "$project"
mkdir -p "$results" "$cache" "$ovs"
mount -t 9p -o "$shared" results "$results"
mount -t 9p -o "$shared" cache "$cache"
mount -t 9p -o "ro,cache=loose,$shared" ovs "$ovs"
touch "$results/booted"

cd "$project" || exit
export XDG_CACHE_HOME="$cache" PYTHONDONTWRITEBYTECODE=1
# Not by $PYTHONPATH: what parses files takes no word of the environment.
echo "$results/wheel" >/usr/local/lib/python3.11/dist-packages/kernel-delay.pth
export PATH="$results/wheel/bin:$PATH"
status=0
sh "$results/command" || status=$?
echo "$status" >"$results/status"
sync
echo o >/proc/sysrq-trigger
sleep 60
