#!/bin/bash
# krew.sh DIST URL VERSION: the plugin for kubectl as an archive, and its manifest for krew, into
# DIST. URL is the project's; without one there is no manifest, as it says where the archive is.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
dist=$(readlink -m "$1") url=$2 version=$3

# Not .tar.gz: that is the sdist.
archive=kubectl-kernel_delay-$version.tgz
# The same bytes each time: gzip keeps no name and no time.
tar --create --sort=name --mtime="@${SOURCE_DATE_EPOCH:?}" --owner=0 --group=0 --numeric-owner \
	--directory=deploy/kubernetes/kubectl kubectl-kernel_delay job.yaml \
	--directory=../../.. LICENSE | gzip --no-name >"$dist/$archive"
[[ $url ]] || exit 0
sum=$(sha256sum "$dist/$archive")
cat >"$dist/kernel-delay.krew.yaml" <<EOF
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: kernel-delay
spec:
  version: v$version
  homepage: $url
  shortDescription: Is the kernel to blame for a slow process?
  description: |
    Measures a process on a node, or of a pod, with eBPF. The report says for each thread where the
    time went and who caused it. It runs as a Job, which is deleted at the end.
  caveats: |
    It takes the image of kernel-delay and, in the namespace kernel-delay, the service account of
    that name: $url/blob/v$version/docs/how-to/kubernetes.md
  platforms:
    - selector:
        matchExpressions:
          - {key: os, operator: In, values: [linux, darwin]}
      uri: $url/releases/download/v$version/$archive
      sha256: ${sum%% *}
      bin: kubectl-kernel_delay
      files:
        - {from: "*", to: .}
EOF
