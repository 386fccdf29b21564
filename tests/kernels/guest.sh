#!/bin/sh
# Runs in the guest, as root: guest.sh RESULTS CACHE_HOME
# The command in RESULTS/command runs in the folder that is the current one.
# RESULTS is the one folder that guest and host both write to.
#
# virtme-ng mounts the host's files without any cache, so that each read of each
# Python module is a message to QEMU. The same files are mounted a second time,
# cached (the host does not change them meanwhile), under a layer in memory that
# takes the writes; the command runs there.
set -eu
results=$1 cache_home=$2
touch "$results/booted"

base=/run/guest
mkdir -p $base
mount -t tmpfs -o size=75% guest $base
mkdir $base/host $base/upper $base/work $base/root
# There is no udev to load what the layer above and Open vSwitch need. A kernel without modules
# has all of it built in.
if [ -e "/lib/modules/$(uname -r)/modules.dep" ]; then
	modprobe --all overlay openvswitch tun veth
	# QEMU emulates AMD's virtualization. Not every build of a kernel has KVM.
	modprobe --quiet kvm_amd || echo "this kernel has no KVM for AMD"
fi
mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=512000 host $base/host
mount -t overlay -o "lowerdir=$base/host,upperdir=$base/upper,workdir=$base/work" guest $base/root
# This tree and the cache may be where the guest has folders of its own, as below /tmp: they
# are put there again.
keep() {
	case $1 in
	/tmp/* | /run/* | /var/tmp/*)
		mkdir -p "$base/kept$1"
		mount --bind "$base/root$1" "$base/kept$1"
		;;
	esac
}
put_back() {
	[ -d "$base/kept$1" ] || return 0
	mkdir -p "$base/root$1"
	mount --bind "$base/kept$1" "$base/root$1"
}
keep "$PWD"
keep "$cache_home"
for directory in tmp run var/tmp; do
	mount -t tmpfs guest "$base/root/$directory"
done
put_back "$PWD"
put_back "$cache_home"
for directory in proc sys dev lib/modules "${results#/}"; do
	mkdir -p "$base/root/$directory"
	mount --rbind "/$directory" "$base/root/$directory"
done

export XDG_CACHE_HOME="$cache_home" PYTHONDONTWRITEBYTECODE=1
status=0
# Not chroot alone: the paths that the kernel tells of other mount namespaces would begin
# with where this root is.
unshare --mount --propagation private sh -c '
	cd "$0" && pivot_root . mnt && umount --lazy /mnt && exec chroot . env "$@"
' $base/root --chdir="$PWD" sh "$results/command" || status=$?
echo $status >"$results/status"
