package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// delimcc is the twin of src/delimcc/direct.rs. Go's sleep of no time returns
// at once, so it has no slow.
func delimcc(bench, param string, s span) (float64, error) {
	mode, size, _ := strings.Cut(param, "-")
	n, err := strconv.ParseUint(size, 10, 64)
	if err != nil {
		return 0, err
	}
	wait, ok := map[string]func() uint64{"quick": there, "medium": pause}[mode]
	if !ok {
		return 0, fmt.Errorf("this subject does not run %s %s", bench, param)
	}
	levels := n * (n + 1) / 2
	var round func(func() uint64, uint64) uint64
	var want uint64
	switch bench {
	case "basic":
		round, want = basic, n
	case "recurse":
		round, want = recurse, levels+1
	default:
		round, want = recurse2, levels+n+1
	}
	m := newMeter(s)
	for rounds := m.next(); rounds > 0; rounds = m.next() {
		for ; rounds > 0; rounds-- {
			if got := round(wait, n); got != want {
				panic("wrong answer")
			}
		}
	}
	return median(m.samples), nil
}

func there() uint64 { return 1 }

func pause() uint64 {
	runtime.Gosched()
	return 1
}

func basic(wait func() uint64, yields uint64) uint64 {
	var waits uint64
	for ; yields > 0; yields-- {
		waits += wait()
	}
	return waits
}

func recurse(wait func() uint64, n uint64) uint64 {
	if n == 0 {
		return wait()
	}
	return n + recurse(wait, n-1)
}

func recurse2(wait func() uint64, n uint64) uint64 {
	w := wait()
	if n == 0 {
		return w
	}
	return n + w + recurse2(wait, n-1)
}
