// Package gojob is the protocol of benches/peers/README.md for programs in Go.
package gojob

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Job is the command line: NAME key=value…
type Job struct {
	Name       string
	parameters map[string]string
}

// Figures is what a job measured.
type Figures struct {
	Done             int               `json:"done"`
	Seconds          float64           `json:"seconds"`
	ProcessorSeconds float64           `json:"processor_seconds"`
	P50              float64           `json:"p50_ms,omitempty"`
	P99              float64           `json:"p99_ms,omitempty"`
	Resident         uint64            `json:"resident_bytes,omitempty"`
	Files            uint64            `json:"file_bytes,omitempty"`
	Facts            map[string]string `json:"facts"`
}

// Main runs the job of the command line, and prints its figures or its error.
func Main(run func(Job) (Figures, error)) {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("write: PROGRAM JOB key=value…"))
	}
	job := Job{Name: os.Args[1], parameters: map[string]string{}}
	for _, argument := range os.Args[2:] {
		key, value, found := strings.Cut(argument, "=")
		if !found {
			fail(fmt.Errorf("'%s' is no key=value", argument))
		}
		job.parameters[key] = value
	}
	figures, err := run(job)
	if err != nil {
		fail(err)
	}
	if figures.Facts == nil {
		figures.Facts = map[string]string{}
	}
	line, err := json.Marshal(figures)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(line))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}

// Text returns a parameter, and ends the program if it is missing.
func (j Job) Text(key string) string {
	value, found := j.parameters[key]
	if !found {
		fail(fmt.Errorf("parameter '%s' is missing", key))
	}
	return value
}

// Number returns a parameter, and ends the program if it is missing or no number.
func (j Job) Number(key string) int {
	number, err := strconv.Atoi(j.Text(key))
	if err != nil {
		fail(fmt.Errorf("parameter %s=%s is not valid", key, j.Text(key)))
	}
	return number
}

// Limit is the time after which the job ends with what it has done.
func (j Job) Limit() time.Duration {
	return time.Duration(j.Number("limit")) * time.Second
}

// ID returns the id of a task, of 20 bytes.
func ID(number int) string {
	return fmt.Sprintf("task-%015d", number)
}

// Digits is the number of digits with which a payload begins.
const Digits = 15

// Payload returns the text of a task. As a JSON string, the text has this many bytes.
func Payload(number, bytes int) string {
	text := fmt.Sprintf("%015d ", number)
	return text + strings.Repeat("x", max(0, bytes-2-len(text)))
}

// Meter measures one phase.
type Meter struct {
	begun time.Time
	used  time.Duration
}

// Start begins a phase.
func Start() Meter {
	return Meter{time.Now(), processorTime()}
}

// Elapsed returns the time since the begin of the phase.
func (m Meter) Elapsed() time.Duration {
	return time.Since(m.begun)
}

// Figures returns the figures of a phase in which this many tasks were done.
func (m Meter) Figures(done int) Figures {
	return Figures{
		Done:             done,
		Seconds:          m.Elapsed().Seconds(),
		ProcessorSeconds: (processorTime() - m.used).Seconds(),
	}
}

// FiguresOfTimes returns the figures of a phase that took this time for each task.
func (m Meter) FiguresOfTimes(times []time.Duration) Figures {
	figures := m.Figures(len(times))
	sort.Slice(times, func(a, b int) bool { return times[a] < times[b] })
	at := func(percent int) float64 {
		return times[(len(times)-1)*percent/100].Seconds() * 1000
	}
	if len(times) > 0 {
		figures.P50, figures.P99 = at(50), at(99)
	}
	return figures
}

// ResidentBytes returns the resident set of this process.
func ResidentBytes() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, _, _ := strings.Cut(rest, " kB")
	bytes, err := strconv.ParseUint(strings.TrimSpace(kib), 10, 64)
	return bytes * 1024, err
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	stat, _ := os.ReadFile("/proc/self/stat")
	// After the name, which is in brackets: state is field 3, utime 14 and stime 15, in hundredths of a second.
	_, rest, _ := strings.Cut(string(stat), ") ")
	var used time.Duration
	for _, ticks := range strings.Fields(rest)[11:13] {
		number, _ := strconv.Atoi(ticks)
		used += time.Duration(number) * 10 * time.Millisecond
	}
	return used
}
