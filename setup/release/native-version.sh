#!/bin/sh
# native-version.sh VERSION: the version as dpkg and rpm order it. What is before a release is older
# by a tilde: 1.0.0rc1 is 1.0.0~rc1, 0.1.0.dev12+g1234567 is 0.1.0~dev12+g1234567.
set -eu
public=${1%%+*}
echo "$(echo "$public" | sed -E 's/\.?(dev|a|b|rc)([0-9]+)$/~\1\2/')${1#"$public"}"
