// Metafora on etcd, as a peer of `cargo xtask bench peers`: the jobs of state machines.
package main

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lytics/metafora"
	"github.com/lytics/metafora/metcdv3"
	"github.com/lytics/metafora/statemachine"
	"github.com/windlass-rs/windlass/benches/peers/gojob"
	etcdv3 "go.etcd.io/etcd/client/v3"
)

// How long a single step may take, and the claims of all tasks.
const (
	patience       = 60 * time.Second
	claimsPatience = 10 * time.Minute
)

type task struct {
	Name string `json:"id"`
}

func (t *task) ID() string { return t.Name }

// space is one namespace of one etcd.
type space struct {
	name string
	etcd *etcdv3.Client
}

func main() {
	gojob.Main(run)
}

func run(job gojob.Job) (gojob.Figures, error) {
	// etcd://HOST:PORT/NAMESPACE
	address, name, _ := strings.Cut(strings.TrimPrefix(job.Text("store"), "etcd://"), "/")
	etcd, err := etcdv3.New(etcdv3.Config{Endpoints: []string{address}, DialTimeout: patience})
	if err != nil {
		return gojob.Figures{}, err
	}
	s := space{name, etcd}
	switch job.Name {
	case "transitions":
		return s.transitions(job)
	case "starts":
		return s.starts(job)
	case "pauses":
		return s.pauses(job)
	case "sleepers":
		return s.sleepers(job)
	}
	return gojob.Figures{}, fmt.Errorf("could not run job '%s'", job.Name)
}

// node starts a consumer. It is not shut down: its namespace is used once, and the process ends.
func (s space) node(handler statemachine.StatefulHandler) error {
	config := metcdv3.NewConfig("node", s.name)
	coordinator, wrapped, _ := metcdv3.New(config, s.etcd, handler)
	// Its fair balancer lets one node claim less than ten tasks a second.
	consumer, err := metafora.NewConsumer(coordinator, wrapped, metafora.DumbBalancer)
	if err == nil {
		go consumer.Run()
	}
	return err
}

func (s space) submit(id string) error {
	return metcdv3.NewClient(s.name, s.etcd).SubmitTask(&task{id})
}

// transitions lets handlers return Checkpoint, Run or Sleep until now at once. Each start of a handler follows a stored
// transition.
func (s space) transitions(job gojob.Job) (gojob.Figures, error) {
	message := statemachine.CheckpointMessage
	switch job.Text("setting") {
	case "run":
		message = statemachine.RunMessage
	case "sleep":
		message = func() *statemachine.Message { return statemachine.SleepMessage(time.Now()) }
	}
	var starts atomic.Int64
	handler := func(metafora.Task, <-chan *statemachine.Message) *statemachine.Message {
		starts.Add(1)
		return message()
	}
	if err := s.node(handler); err != nil {
		return gojob.Figures{}, err
	}
	slots := job.Number("slots")
	for n := range slots {
		if err := s.submit(gojob.ID(n)); err != nil {
			return gojob.Figures{}, err
		}
	}
	// The first starts are those of the claims.
	for begun := time.Now(); starts.Load() < int64(2*slots); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > claimsPatience {
			return gojob.Figures{}, errors.New("the tasks were not claimed in time")
		}
	}
	meter, before := gojob.Start(), starts.Load()
	time.Sleep(job.Limit())
	return meter.Figures(int(starts.Load() - before)), nil
}

// sleepers lets each handler return Sleep for a year at once, and returns when the states should be stored.
func (s space) sleepers(job gojob.Job) (gojob.Figures, error) {
	var starts atomic.Int64
	due := time.Now().AddDate(1, 0, 0)
	handler := func(metafora.Task, <-chan *statemachine.Message) *statemachine.Message {
		starts.Add(1)
		return statemachine.SleepMessage(due)
	}
	if err := s.node(handler); err != nil {
		return gojob.Figures{}, err
	}
	meter, count := gojob.Start(), job.Number("count")
	for n := range count {
		if err := s.submit(gojob.ID(n)); err != nil {
			return gojob.Figures{}, err
		}
	}
	for begun := time.Now(); starts.Load() < int64(count); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > claimsPatience {
			return gojob.Figures{}, errors.New("the tasks were not claimed in time")
		}
	}
	time.Sleep(job.Limit())
	return meter.Figures(count), nil
}

// waits starts a consumer whose handler reports its start and then each command.
func (s space) waits() (chan time.Time, error) {
	reports := make(chan time.Time, 16)
	return reports, s.node(func(_ metafora.Task, commands <-chan *statemachine.Message) *statemachine.Message {
		reports <- time.Now()
		command := <-commands
		reports <- time.Now()
		return command
	})
}

func report(reports chan time.Time) (time.Time, error) {
	select {
	case at := <-reports:
		return at, nil
	case <-time.After(patience):
		return time.Time{}, errors.New("the handler reported nothing in time")
	}
}

// starts measures from the call that submits a task to the start of its handler.
func (s space) starts(job gojob.Job) (gojob.Figures, error) {
	reports, err := s.waits()
	if err != nil {
		return gojob.Figures{}, err
	}
	meter, times := gojob.Start(), []time.Duration{}
	for n := range job.Number("count") {
		begun := time.Now()
		if err := s.submit(gojob.ID(n)); err != nil {
			return gojob.Figures{}, err
		}
		at, err := report(reports)
		if err != nil {
			return gojob.Figures{}, err
		}
		times = append(times, at.Sub(begun))
	}
	return meter.FiguresOfTimes(times), nil
}

// pauses measures from the call that sends Pause to the moment at which the handler has it.
func (s space) pauses(job gojob.Job) (gojob.Figures, error) {
	reports, err := s.waits()
	if err != nil {
		return gojob.Figures{}, err
	}
	id, commander := gojob.ID(0), metcdv3.NewCommander(s.name, s.etcd)
	if err := s.submit(id); err != nil {
		return gojob.Figures{}, err
	}
	meter, times := gojob.Start(), []time.Duration{}
	for range job.Number("count") {
		if _, err := report(reports); err != nil {
			return gojob.Figures{}, err
		}
		begun := time.Now()
		if err := commander.Send(id, statemachine.PauseMessage()); err != nil {
			return gojob.Figures{}, err
		}
		at, err := report(reports)
		if err != nil {
			return gojob.Figures{}, err
		}
		times = append(times, at.Sub(begun))
		if err := commander.Send(id, statemachine.RunMessage()); err != nil {
			return gojob.Figures{}, err
		}
	}
	return meter.FiguresOfTimes(times), nil
}
