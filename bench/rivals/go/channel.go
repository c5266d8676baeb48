package main

import "fmt"

// As in src/sync/mod.rs.
const (
	burst        = 10_000
	room         = 128
	ready        = 1000
	locksInChunk = 200_000
)

func sumTo(n uint64) uint64 { return n * (n - 1) / 2 }

// channels is src/sync/channel.rs: bursts from producers to one consumer, or to
// four, which then report to the one that measures. Go has no unbounded channel.
func channels(param string, s span) (float64, error) {
	switch param {
	case "bounded":
		return flow(s, room, 1, 1), nil
	case "bounded-4p":
		return flow(s, room, 4, 1), nil
	case "rendezvous":
		return flow(s, 0, 1, 1), nil
	case "mpmc":
		return flow(s, room, 4, 4), nil
	}
	return 0, fmt.Errorf("this subject does not run channel %s", param)
}

func flow(s span, room, producers, consumers uint64) float64 {
	messages := make(chan uint64, room)
	reports := make(chan uint64, consumers)
	var starts, takes []chan uint64
	for i := uint64(0); i < producers; i++ {
		start := make(chan uint64, 1)
		starts = append(starts, start)
		go func() {
			for n := range start {
				for i := uint64(0); i < n; i++ {
					messages <- i
				}
			}
		}()
	}
	for i := uint64(0); consumers > 1 && i < consumers; i++ {
		take := make(chan uint64, 1)
		takes = append(takes, take)
		go func() {
			for n := range take {
				reports <- receive(messages, n)
			}
		}()
	}
	m := fixedMeter(s, burst)
	for n := m.next(); n > 0; n = m.next() {
		for _, take := range takes {
			take <- n / consumers
		}
		for _, start := range starts {
			start <- n / producers
		}
		var got uint64
		if consumers == 1 {
			got = receive(messages, n)
		}
		for range takes {
			got += <-reports
		}
		check(got, producers*sumTo(n/producers))
	}
	return median(m.samples)
}

func receive(messages chan uint64, n uint64) uint64 {
	var got uint64
	for i := uint64(0); i < n; i++ {
		got += <-messages
	}
	return got
}

// request: a goroutine answers over a channel that the request brings.
func request(s span) float64 {
	type question struct {
		v     uint64
		reply chan uint64
	}
	ask := make(chan question, 1)
	go func() {
		for q := range ask {
			q.reply <- q.v
		}
	}()
	m := newMeter(s)
	for n := m.next(); n > 0; n = m.next() {
		for i := uint64(0); i < n; i++ {
			reply := make(chan uint64, 1)
			ask <- question{i, reply}
			check(<-reply, i)
		}
	}
	close(ask)
	return median(m.samples)
}

// selects is src/sync/select.rs.
func selects(param string, s span) (float64, error) {
	a, b := make(chan uint64, ready), make(chan uint64, ready)
	switch param {
	case "recv", "select":
		return drain(a, b, param == "select", false, s), nil
	case "recv-sent", "select-sent":
		return drain(a, b, param == "select-sent", true, s), nil
	case "recv-wait", "select-wait":
		return roundTrip(a, b, param == "select-wait", s), nil
	}
	return 0, fmt.Errorf("this subject does not run select %s", param)
}

func either(a, b chan uint64) uint64 {
	select {
	case v := <-a:
		return v
	case v := <-b:
		return v
	}
}

func drain(a, b chan uint64, selects, sends bool, s span) float64 {
	m := fixedMeter(s, ready)
	for n := m.next(); n > 0; n = m.next() {
		for i := uint64(0); i < n/2; i++ {
			a <- i
			b <- i
		}
		if !sends {
			m.restart()
		}
		var got uint64
		if selects {
			for i := uint64(0); i < n; i++ {
				got += either(a, b)
			}
		} else {
			for i := uint64(0); i < n/2; i++ {
				got += <-a + <-b
			}
		}
		check(got, 2*sumTo(n/2))
	}
	return median(m.samples)
}

func roundTrip(a, b chan uint64, selects bool, s span) float64 {
	ask := make(chan uint64, ready)
	go func() {
		for v := range ask {
			if v%2 == 0 {
				a <- v
			} else {
				b <- v
			}
		}
	}()
	m := newMeter(s)
	for n := m.next(); n > 0; n = m.next() {
		for i := uint64(0); i < n; i++ {
			ask <- i
			var got uint64
			switch {
			case selects:
				got = either(a, b)
			case i%2 == 0:
				got = <-a
			default:
				got = <-b
			}
			check(got, i)
		}
	}
	close(ask)
	return median(m.samples)
}
