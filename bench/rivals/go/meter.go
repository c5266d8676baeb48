package main

import (
	"sort"
	"time"
)

type span struct{ warm, measure time.Duration }

// meter is the twin of Meter in src/stats.rs: chunks that adapt while warming
// up, then chunks of one size whose median counts.
type meter struct {
	span       span
	chunk      uint64
	fixed      bool
	warming    bool
	running    bool
	phaseStart time.Time
	chunkStart time.Time
	samples    []float64
}

func newMeter(s span) *meter {
	return &meter{span: s, chunk: 1, warming: true, phaseStart: time.Now()}
}

func fixedMeter(s span, chunk uint64) *meter {
	m := newMeter(s)
	m.chunk, m.fixed = chunk, true
	return m
}

// next ends the chunk before; 0 means that enough is known.
func (m *meter) next() uint64 {
	now := time.Now()
	if m.running {
		took := now.Sub(m.chunkStart)
		if m.warming {
			if !m.fixed && took < 700*time.Microsecond {
				m.chunk *= 2
			} else if now.Sub(m.phaseStart) >= m.span.warm {
				m.warming = false
				m.phaseStart = now
			}
		} else {
			m.samples = append(m.samples, float64(took.Nanoseconds())/float64(m.chunk))
			if now.Sub(m.phaseStart) >= m.span.measure {
				return 0
			}
		}
	}
	m.running = true
	m.chunkStart = time.Now()
	return m.chunk
}

// restart begins the chunk anew: what came before was preparation.
func (m *meter) restart() { m.chunkStart = time.Now() }

func median(samples []float64) float64 {
	sort.Float64s(samples)
	mid := len(samples) / 2
	if len(samples)%2 == 1 {
		return samples[mid]
	}
	return (samples[mid-1] + samples[mid]) / 2
}
