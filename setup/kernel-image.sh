#!/bin/bash
# kernel-image.sh TREE OUTPUT [FRAGMENT...]: builds a kernel that the tests can boot, from a source
# tree of Linux. A FRAGMENT is merged into its configuration after ours, kernel-image.config.
#
# The image OUTPUT is all of it: what it needs is built in, and no module is made. The tree stays as
# it is; what is built goes to OUTPUT.build, where the next call takes it up again. That takes 3 GB,
# and 30 CPU minutes or more. Variables of make are passed on: an old kernel may need an old compiler,
# `CC=gcc-12 setup/kernel-image.sh ...` (GCC 12 builds 5.14 to 6.12; GCC 15 takes `bool` for a keyword,
# and refuses what is older than 6.14). `ARCH=arm64` builds one of arm64. `CONFIGURE_ONLY=1` stops when
# the configuration is made.
set -euo pipefail

say() { echo "kernel-image: $*" >&2; }

if (($# < 2)); then
	say 'two arguments, please: a source tree of Linux, and the image to make'
	exit 64 # EX_USAGE
fi
tree=$(readlink -m "$1") output=$(readlink -m "$2")
build=$output.build
here=$(dirname "$(readlink -f "$0")")
fragments=("$here/kernel-image.config")
for fragment in "${@:3}"; do
	fragments+=("$(readlink -e "$fragment")") || {
		say "$fragment is not there"
		exit 66 # EX_NOINPUT
	}
done

# What the architecture's own configuration has as modules is nothing but drivers of boards on arm64.
case ${ARCH:=x86_64} in
x86_64) source=x86 image=bzImage configs=(x86_64_defconfig kvm_guest.config) modules=mod2yesconfig ;;
arm64) source=arm64 image=Image configs=(defconfig virt.config kvm_guest.config) modules=mod2noconfig ;;
*)
	say "ARCH=$ARCH is neither x86_64 nor arm64"
	exit 64 # EX_USAGE
	;;
esac

if [[ ! -e $tree/kernel/configs/kvm_guest.config ]]; then
	say "$tree is no source tree of Linux: unpack one of https://cdn.kernel.org/pub/linux/kernel"
	exit 66 # EX_NOINPUT
fi
if [[ -e $tree/.config || -d $tree/include/config ]]; then
	say "$tree was built in, and make refuses to build beside that: run 'make -C $tree mrproper'"
	exit 65 # EX_DATAERR
fi
packages=("$here/packages-kernel-image.txt")
if [[ $ARCH == arm64 && $(uname -m) != aarch64 ]]; then
	packages+=(gcc-aarch64-linux-gnu)
	export CROSS_COMPILE=${CROSS_COMPILE:-aarch64-linux-gnu-}
fi
"$here/debian-packages.sh" "${packages[@]}"
mkdir -p "$build"

# pahole writes enums of 64 bits from 1.24 on, as a kind of type that kernels before 6.0 do not
# know (their resolve_btfids dies of it), and not all of these ask it to leave that out.
pahole=pahole
if ! grep -qs BTF_KIND_ENUM64 "$tree/include/uapi/linux/btf.h" &&
	pahole --help 2>&1 | grep -q -e --skip_encoding_btf_enum64; then
	pahole=$build/pahole
	printf '#!/bin/sh\nexec pahole --skip_encoding_btf_enum64 "$@"\n' >"$pahole"
	chmod +x "$pahole"
fi

make=(make --directory="$tree" O="$build" ARCH="$ARCH" PAHOLE="$pahole" ${CC:+CC="$CC"})
"${make[@]}" --quiet "${configs[@]}" >&2
(cd "$build" && "$tree/scripts/kconfig/merge_config.sh" -m .config "${fragments[@]}" >/dev/null)
"${make[@]}" --quiet olddefconfig "$modules" >&2

# An option whose dependencies are not met vanishes without a word.
mapfile -t options < <(find "$tree" -path "$tree/arch/*/*" ! -path "$tree/arch/$source/*" -prune \
	-o -name 'Kconfig*' -print)
lost=()
while read -r line; do
	name=$(sed -E 's/^(# )?CONFIG_([A-Z0-9_]+).*/\2/' <<<"$line")
	if [[ $line == '#'* ]]; then
		grep -q "^CONFIG_$name=" "$build/.config" && lost+=("$line")
	elif ! grep -qxF "$line" "$build/.config"; then
		if grep -qsE "^[[:space:]]*(menu)?config $name\$" "${options[@]}"; then
			lost+=("$line")
		else
			say "this kernel has no CONFIG_$name"
		fi
	fi
done < <(grep -hE '^(# )?CONFIG_[A-Z0-9_]+( is not set|=.*)$' "${fragments[@]}")
if ((${#lost[@]})); then
	say "the kernel's configuration contradicts what was asked for: $(printf '%s; ' "${lost[@]}")"
	exit 70 # EX_SOFTWARE
fi
[[ -z ${CONFIGURE_ONLY:-} ]] || exit 0

"${make[@]}" --quiet --jobs="$(nproc)" "$image" >&2
cp "$build/arch/$source/boot/$image" "$output"
say "$output is $(make --silent --directory="$tree" O="$build" ARCH="$ARCH" kernelrelease)"
