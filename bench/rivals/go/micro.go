package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const batch = 10_000

// stop is the phase in which tasks end, windows the most phases before it.
const (
	stop    = 1 << 31
	windows = 500
)

// yields is the wall time per yield.
func yields(tasks int, s span) float64 {
	return windowed(tasks, s, func(again func() bool) {
		for {
			runtime.Gosched()
			if !again() {
				return
			}
		}
	})
}

// windowed counts, as Gate in src/stats.rs does, the steps of all tasks in
// windows of time: a task that sees a new phase hands in its steps of the last.
// A task calls again after each step.
func windowed(tasks int, s span, run func(again func() bool)) float64 {
	var phase atomic.Uint32
	var started atomic.Int64
	var totals [windows + 1]atomic.Uint64
	var wg sync.WaitGroup
	wg.Add(tasks)
	for i := 0; i < tasks; i++ {
		go func() {
			defer wg.Done()
			started.Add(1)
			var seen uint32
			var steps uint64
			run(func() bool {
				p := phase.Load()
				if p == seen {
					steps++
					return true
				}
				totals[seen].Add(steps)
				seen, steps = p, 1
				return p != stop
			})
		}()
	}
	for started.Load() < int64(tasks) {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(s.warm)
	length := max(2*time.Millisecond, time.Duration(tasks)*time.Microsecond)
	n := min(max(int(s.measure/length), 5), windows)
	stamps := make([]time.Time, 0, n+1)
	for p := 1; p <= n; p++ {
		stamps = append(stamps, time.Now())
		phase.Store(uint32(p))
		time.Sleep(length)
	}
	stamps = append(stamps, time.Now())
	phase.Store(stop)
	wg.Wait()
	var samples []float64
	for i := 0; i < n; i++ {
		steps := max(totals[i+1].Load(), 1)
		samples = append(samples, float64(stamps[i+1].Sub(stamps[i]).Nanoseconds())/float64(steps))
	}
	return median(samples)
}

// Go has no join that gives a value: a goroutine sends it on a channel of one.
func spawn(i uint64) chan uint64 {
	done := make(chan uint64, 1)
	go func() { done <- i }()
	return done
}

func spawnOne(s span) float64 {
	m := newMeter(s)
	for n := m.next(); n > 0; n = m.next() {
		for i := uint64(0); i < n; i++ {
			if got := <-spawn(i); got != i {
				panic("wrong answer")
			}
		}
	}
	return median(m.samples)
}

func spawnBatch(s span) float64 {
	m := fixedMeter(s, batch)
	for n := m.next(); n > 0; n = m.next() {
		all := make([]chan uint64, n)
		for i := range all {
			all[i] = spawn(uint64(i))
		}
		var sum uint64
		for _, done := range all {
			sum += <-done
		}
		if sum != n*(n-1)/2 {
			panic("wrong sum")
		}
	}
	return median(m.samples)
}

func pingPong(s span) float64 {
	ping, pong := make(chan uint64), make(chan uint64)
	go func() {
		for v := range ping {
			pong <- v
		}
	}()
	m := newMeter(s)
	for n := m.next(); n > 0; n = m.next() {
		for i := uint64(0); i < n; i++ {
			ping <- i
			if got := <-pong; got != i {
				panic("wrong answer")
			}
		}
	}
	close(ping)
	return median(m.samples)
}

func timerDelay(s span) float64 {
	const tick = time.Millisecond
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		for !stop.Load() {
			runtime.Gosched()
		}
		close(ended)
	}()
	var late []float64
	until := time.Now().Add(3 * s.measure)
	for len(late) < 20 || time.Now().Before(until) {
		start := time.Now()
		time.Sleep(tick)
		late = append(late, float64((time.Since(start)-tick).Nanoseconds())/1e3)
	}
	stop.Store(true)
	<-ended
	return median(late)
}

func sleepers(tasks int) error {
	before, err := residentKib()
	if err != nil {
		return err
	}
	t0 := time.Now()
	deadline := t0.Add(500*time.Millisecond + 20*time.Microsecond*time.Duration(tasks))
	var asleep atomic.Int64
	var wg sync.WaitGroup
	wg.Add(tasks)
	for i := 0; i < tasks; i++ {
		go func() {
			asleep.Add(1)
			time.Sleep(time.Until(deadline))
			wg.Done()
		}()
	}
	for asleep.Load() < int64(tasks) {
		runtime.Gosched()
	}
	spawned := time.Since(t0)
	after, err := residentKib()
	if err != nil {
		return err
	}
	wg.Wait()
	end := time.Since(deadline)
	if spawned >= deadline.Sub(t0) {
		return fmt.Errorf("starting the sleepers took %v: the first woke before", spawned)
	}
	show("KiB/task", (after-before)/float64(tasks))
	show("s to spawn", spawned.Seconds())
	show("s to end", end.Seconds())
	return nil
}

// residentKib is the resident memory of this process with its page tables.
func residentKib() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, line := range strings.Split(string(status), "\n") {
		key, value, _ := strings.Cut(line, ":")
		if key == "VmRSS" || key == "VmPTE" {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			if err != nil {
				return 0, err
			}
			sum += kib
		}
	}
	return sum, nil
}
