package interop

import (
	"testing"

	"github.com/lytics/metafora/statemachine"
)

// A node of theirs died after it had stored the last state and before it unscheduled the task.
func TestATaskThatHasEndedIsUnscheduled(t *testing.T) {
	s := newSpace(t)
	s.submit("x")
	s.put(`{"state":"completed"}`, "state", "x")
	s.ours("ours")
	s.until("x is unscheduled", s.listed())
	if got := s.state("x"); got != "completed" {
		t.Fatalf("x is %q", got)
	}
}

// Paused by ours, then run and released by theirs while no node of ours lived.
func TestATaskThatOursPausedAndTheirsRanRuns(t *testing.T) {
	s := newSpace(t)
	first := s.ours("first")
	s.submit("m")
	s.until("m runs", func() bool { return s.owner("m") == "first" })
	s.send("m", statemachine.PauseMessage())
	s.until("m pauses", func() bool { return s.state("m") == "paused" && s.owner("m") == "" })
	first.stop()
	metaforas := s.theirs("theirs")
	s.until("theirs holds m", func() bool { return metaforas.runs("m") })
	s.send("m", statemachine.RunMessage())
	s.until("theirs runs m", func() bool { return s.state("m") == "runnable" })
	metaforas.stop()
	s.ours("second")
	s.until("ours runs m", func() bool { return s.owner("m") == "second" })
}

// What Metafora's state machine stores when a handler returns a sleep without a time, or a run with
// one; and a task whose node died in `fault`.
func TestOddStatesOfTheirsAreGoneOnFrom(t *testing.T) {
	s := newSpace(t)
	const errors = `"errors":[{"timestamp":"2026-01-21T16:30:00.123456789+02:00","error":"x"}]`
	odd := map[string]string{
		"endless": `{"state":"sleeping"}`,
		"early":   `{"state":"sleeping","until":"0001-01-01T00:00:00Z"}`,
		"failed":  `{"state":"sleeping","until":"2020-01-01T00:00:00.123456789+02:00",` + errors + `}`,
		"run":     `{"state":"runnable","until":"2020-01-01T00:00:00+02:00"}`,
	}
	for id, state := range odd {
		s.submit(id)
		s.put(state, "state", id)
	}
	s.submit("fault")
	s.put(`{"state":"fault",`+errors+`}`, "state", "fault")
	s.ours("ours")
	for id := range odd {
		s.until(id+" runs", func() bool { return s.owner(id) == "ours" && s.state(id) == "runnable" })
	}
	s.until("the one in fault is tried again later", func() bool {
		return s.state("fault") == "sleeping" && s.owner("fault") == ""
	})
	for _, id := range []string{"failed", "fault"} {
		var state struct{ Errors []struct{ Error string } }
		s.read(&state, "state", id)
		if len(state.Errors) != 1 || state.Errors[0].Error != "x" {
			t.Errorf("%s has lost its error: %+v", id, state)
		}
	}
}
