#!/bin/busybox sh
# The first program of the emulated machine: makes a system of the kernel and busybox, runs the test suites of /list one
# after the other, and switches off. Each is between two lines that begin with "@@", for whoever reads the console.
/bin/busybox mkdir -p /proc /sys /dev /tmp /usr/bin /usr/sbin /sbin
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs tmp /tmp
chmod 1777 /tmp
ln -s /proc/self/fd /dev/fd
ip link set lo up
ulimit -n 1048576
uname -sr
while read -r limit what dir command; do
    echo "@@ begins $what"
    mkdir -p "$dir" && cd "$dir"
    read -r begun _ </proc/uptime
    # Through a pipe: the console's own way to write is slow, and a test would wait for it.
    { timeout -s KILL "$limit" env $command 2>&1 </dev/null; echo "@@ ended $?"; } | cat
    read -r ended _ </proc/uptime
    echo "@@ took $begun $ended"
done </list
poweroff -f
