// The Go rival of bast-bench. It is started by the benchmark with the same
// arguments as the other subjects:
//
//	subject BENCH PARAM go|go-timer WARM_MS MEASURE_MS   prints "unit TAB value" lines
//	serve echo|pong go ADDRESS                  prints "listening ADDRESS"
//
// GOMAXPROCS is set by the benchmark to the number of workers.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	args := os.Args[1:]
	var err error
	switch {
	case len(args) == 6 && args[0] == "subject":
		err = subject(args[1], args[2], args[3], args[4], args[5])
	case len(args) == 4 && args[0] == "serve":
		err = serve(args[1], args[3])
	default:
		err = fmt.Errorf("usage: subject BENCH PARAM go WARM_MS MEASURE_MS | serve SERVICE go ADDRESS")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "go:", err)
		os.Exit(1)
	}
}

func subject(bench, param, name, warmMs, measureMs string) error {
	warm, err := strconv.Atoi(warmMs)
	if err != nil {
		return err
	}
	measure, err := strconv.Atoi(measureMs)
	if err != nil {
		return err
	}
	s := span{time.Duration(warm) * time.Millisecond, time.Duration(measure) * time.Millisecond}
	param, _, _ = strings.Cut(param, "@")
	tasks, tasksErr := strconv.Atoi(param)
	switch {
	case bench == "yield" && tasksErr == nil:
		show("ns", yields(tasks, s))
	case bench == "spawn-join" && param == "one":
		show("ns", spawnOne(s))
	case bench == "spawn-join" && param == "batch":
		show("ns", spawnBatch(s))
	case bench == "ping-pong" && param == "channel":
		show("ns", pingPong(s))
	case bench == "timer-delay":
		show("us late", timerDelay(s))
	case bench == "sleepers" && tasksErr == nil:
		return sleepers(tasks)
	case bench == "diet":
		return diet(param, s)
	case bench == "children" && tasksErr == nil:
		return children(tasks)
	case bench == "ping-pong" && param == "oneshot":
		show("ns", request(s))
	case bench == "basic" || bench == "recurse" || bench == "recurse2":
		return showIf(delimcc(bench, param, s))
	case bench == "channel":
		return showIf(channels(param, s))
	case bench == "select":
		return showIf(selects(param, s))
	case bench == "lock" || bench == "contended" || bench == "mvar":
		return showIf(locks(bench, param, s))
	case bench == "timeout" && name == "go":
		show("ns", timeoutContext(s))
	case bench == "timeout" && name == "go-timer":
		show("ns", timeoutTimer(s))
	case bench == "cancel":
		show("ns", cancels(s))
	default:
		return fmt.Errorf("this subject does not run %s %s", bench, param)
	}
	return nil
}

func showIf(value float64, err error) error {
	if err == nil {
		show("ns", value)
	}
	return err
}

func show(unit string, value float64) {
	fmt.Printf("%s\t%g\n", unit, value)
}
