package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is USER_HZ, the unit of CPU times in /proc: a hundredth of a second on
// every architecture that Linux reports it on.
const tick = 10 * time.Millisecond

// cpuTime answers the CPU time that a process has used, in user and kernel
// mode.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses and can hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return 0, fmt.Errorf("/proc/%d/stat holds %q", pid, text)
	}
	user, err := strconv.ParseInt(fields[utime], 10, 64)
	if err != nil {
		return 0, err
	}
	kernel, err := strconv.ParseInt(fields[stime], 10, 64)
	return time.Duration(user+kernel) * tick, err
}

// memory answers the resident memory of a process now and at its highest, in
// megabytes.
func memory(pid int) (now, peak float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		for name, into := range map[string]*float64{"VmRSS:": &now, "VmHWM:": &peak} {
			if value, ok := strings.CutPrefix(line, name); ok {
				kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
				if err != nil {
					return 0, 0, err
				}
				*into = kilobytes * 1024 / 1e6
			}
		}
	}
	if now == 0 || peak == 0 {
		return 0, 0, fmt.Errorf("/proc/%d/status says nothing of memory", pid)
	}
	return now, peak, nil
}
