package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// exclusive is a value that one goroutine at a time may change.
type exclusive interface {
	lock()
	unlock()
}

type mutex struct{ sync.Mutex }

func (m *mutex) lock()   { m.Lock() }
func (m *mutex) unlock() { m.Unlock() }

// baton is the nearest that Go has to an MVar: a channel with room for one.
type baton chan struct{}

func newBaton() baton {
	b := make(baton, 1)
	b <- struct{}{}
	return b
}

func (b baton) lock()   { <-b }
func (b baton) unlock() { b <- struct{}{} }

// locks is lock, contended and mvar of src/sync/exclusive.rs.
func locks(bench, param string, s span) (float64, error) {
	digits := param[strings.LastIndexByte(param, '-')+1:]
	tasks, err := strconv.Atoi(digits)
	switch {
	case bench == "lock" && param == "mutex":
		return lockAlone(s), nil
	case bench == "lock" && param == "rwlock-read":
		return readAlone(s), nil
	case bench == "mvar" && param == "uncontended":
		return batonAlone(s), nil
	case err != nil:
		return 0, err
	}
	var make func() exclusive
	switch bench {
	case "contended":
		make = func() exclusive { return new(mutex) }
	case "mvar":
		make = func() exclusive { return newBaton() }
	default:
		return 0, fmt.Errorf("this subject does not run %s %s", bench, param)
	}
	if strings.HasPrefix(param, "held-") {
		return held(make(), tasks, s), nil
	}
	return short(make, tasks, s), nil
}

func check(value, want uint64) {
	if value != want {
		panic("wrong count")
	}
}

func lockAlone(s span) float64 {
	var value, times uint64
	lock := new(sync.Mutex)
	m := newMeter(s)
	for n := m.next(); n > 0; n = m.next() {
		for i := uint64(0); i < n; i++ {
			lock.Lock()
			value++
			lock.Unlock()
		}
		times += n
	}
	check(value, times)
	return median(m.samples)
}

func readAlone(s span) float64 {
	var sum, times, value uint64 = 0, 0, 1
	lock := new(sync.RWMutex)
	m := newMeter(s)
	for n := m.next(); n > 0; n = m.next() {
		for i := uint64(0); i < n; i++ {
			lock.RLock()
			sum += value
			lock.RUnlock()
		}
		times += n
	}
	check(sum, times)
	return median(m.samples)
}

func batonAlone(s span) float64 {
	var value, times uint64
	b := newBaton()
	m := newMeter(s)
	for n := m.next(); n > 0; n = m.next() {
		for i := uint64(0); i < n; i++ {
			b.lock()
			value++
			b.unlock()
		}
		times += n
	}
	check(value, times)
	return median(m.samples)
}

// held: every goroutine yields while it holds the lock.
func held(lock exclusive, tasks int, s span) float64 {
	var value uint64
	var times atomic.Uint64
	ns := windowed(tasks, s, func(again func() bool) {
		var mine uint64
		for next := true; next; next = again() {
			lock.lock()
			value++
			runtime.Gosched()
			lock.unlock()
			mine++
		}
		times.Add(mine)
	})
	check(value, times.Load())
	return ns
}

// short: the goroutines hold the lock for one addition.
func short(make func() exclusive, tasks int, s span) float64 {
	m := fixedMeter(s, locksInChunk)
	for n := m.next(); n > 0; n = m.next() {
		var value uint64
		lock := make()
		each := n / uint64(tasks)
		var wg sync.WaitGroup
		wg.Add(tasks)
		for i := 0; i < tasks; i++ {
			go func() {
				defer wg.Done()
				for i := uint64(0); i < each; i++ {
					lock.lock()
					value++
					lock.unlock()
				}
			}()
		}
		wg.Wait()
		check(value, each*uint64(tasks))
	}
	return median(m.samples)
}
