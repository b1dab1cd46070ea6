#!/bin/bash
# The first process of a node, in namespaces of its own: mounts what the node may write, then runs containerd, kube-proxy and kubelet.
#   node.sh DIR    DIR has what `node.py` wrote: containerd.toml, kubelet.yaml, kube-proxy.yaml, kubeconfigs, cni/, images and programs
set -euo pipefail
dir=$1
# shellcheck disable=SC1091
source "$dir/node.env" # NAME, ADDRESS, KUBELET, KUBE_PROXY, FIRST_IMAGES, IMAGES

# 1. Mounts. Pods mount below /var/lib/kubelet, so mounts propagate inside of the node and nowhere else. `ip netns` mounted /sys.
mount --make-rprivate /
mount --make-rshared /
mount -t tmpfs tmpfs /sys/fs/cgroup
while IFS=: read -r _ controllers _; do
  name=${controllers#name=}
  [ -n "$name" ] || continue # the hierarchy of version 2
  mkdir -p "/sys/fs/cgroup/$name"
  mount -t cgroup -o "$([ "$name" = "$controllers" ] && echo "$name" || echo "none,$controllers")" cgroup "/sys/fs/cgroup/$name"
done </proc/self/cgroup
mount -t tmpfs tmpfs /run
for place in /var/lib/kubelet /var/lib/cni /etc/cni/net.d /var/log/pods /var/log/containers; do
  mkdir -p "$dir/root$place"
  mount --bind "$dir/root$place" "$place"
done
cp "$dir/cni.conflist" /etc/cni/net.d/10-node.conflist
mount --bind "$dir/hosts" /etc/hosts
mount --bind "$dir/resolv.conf" /etc/resolv.conf
hostname "$NAME"

# 2. Kernel settings that kubelet wants are settings of the whole machine: kubelet reads files that lie over them, and writes nothing.
while read -r name value; do
  echo "$value" >"$dir/root/$name"
  mount --bind "$dir/root/$name" "/proc/sys/${name//.//}"
done <<'SETTINGS'
vm.overcommit_memory 1
vm.panic_on_oom 0
kernel.panic 10
kernel.panic_on_oops 1
kernel.keys.root_maxkeys 1000000
kernel.keys.root_maxbytes 25000000
SETTINGS

# 3. The programs. kubelet runs in a loop, so that it can be ended and started alone, while containers go on.
containerd --config "$dir/containerd.toml" >>"$dir/containerd.log" 2>&1 &
until ctr version >/dev/null 2>&1; do sleep 0.1; done
rm -f "$dir/images.done"
load() { for image in "$@"; do ctr -n k8s.io images import "$image" >>"$dir/images.log" 2>&1; done; }
# shellcheck disable=SC2086
load $FIRST_IMAGES
# shellcheck disable=SC2086
{ load $IMAGES && touch "$dir/images.done"; } &
"$KUBE_PROXY" --config "$dir/kube-proxy.yaml" >>"$dir/kube-proxy.log" 2>&1 &
while true; do
  [ -e "$dir/kubelet.off" ] || "$KUBELET" --config "$dir/kubelet.yaml" --kubeconfig "$dir/kubelet.kubeconfig" \
    --hostname-override "$NAME" --node-ip "$ADDRESS" --root-dir /var/lib/kubelet >>"$dir/kubelet.log" 2>&1 || true
  sleep 0.2
done
