package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// person is somebody who is fed, as in src/diet/mod.rs.
type person struct{ fiber, calcium, iron, wants int32 }

func (p *person) satisfied() bool {
	return p.fiber == p.wants && p.calcium == p.wants && p.iron == p.wants
}

// diet feeds at least twice, and until the time is up: seconds of each feeding,
// and what was fed.
func diet(param string, s span) error {
	first, second, _ := strings.Cut(param, "x")
	people, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	nutrients, err := strconv.Atoi(second)
	if err != nil {
		return err
	}
	begin := time.Now()
	for round := 1; ; round++ {
		start := time.Now()
		all := feedAll(people, int32(nutrients))
		show("s", time.Since(start).Seconds())
		fed := 0
		for _, p := range all {
			if !p.satisfied() {
				return fmt.Errorf("somebody was not fed: %+v", *p)
			}
			fed += int(p.fiber) + int(p.calcium) + int(p.iron)
		}
		if round >= 2 && time.Since(begin) >= s.measure {
			fmt.Printf("fed\t%d\n", fed)
			return nil
		}
	}
}

// feedAll has a goroutine per person.
func feedAll(people int, nutrients int32) []*person {
	all := make([]*person, people)
	var wg sync.WaitGroup
	wg.Add(people)
	for i := range all {
		p := &person{wants: nutrients}
		all[i] = p
		go func() {
			defer wg.Done()
			for !p.satisfied() {
				p.fiber++
				p.calcium++
				p.iron++
				runtime.Gosched()
			}
		}()
	}
	wg.Wait()
	return all
}
