package interop

import (
	"errors"
	"slices"
	"testing"

	"github.com/lytics/metafora/metcdv3"
)

// task is what a Go program submits; our node reads its JSON.
type task struct {
	Name string `json:"id"`
	// How many steps there are; none: it runs until it is told otherwise.
	Steps int `json:"steps,omitempty"`
	// How long it sleeps after a step, in milliseconds.
	Pause int `json:"pause_ms,omitempty"`
}

func (t *task) ID() string { return t.Name }

func (s *space) submit(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		s.submitTask(&task{Name: id})
	}
}

func (s *space) submitTask(t *task) {
	s.t.Helper()
	if err := s.client.SubmitTask(t); err != nil {
		s.t.Fatal(err)
	}
}

// tasks is what Metafora's client lists, in order.
func (s *space) tasks() []string {
	s.t.Helper()
	ids, err := s.client.(interface{ Tasks() ([]string, error) }).Tasks()
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

func (s *space) listed(ids ...string) func() bool {
	return func() bool { return slices.Equal(s.tasks(), ids) }
}

func TestWhatAClientSubmitsRuns(t *testing.T) {
	s := newSpace(t)
	s.ours("ours")
	s.submit("a", "b")
	if err := s.client.SubmitTask(&task{Name: "a"}); !errors.Is(err, metcdv3.ErrFailedSubmitTask) {
		t.Fatalf("submitted twice: %v", err)
	}
	s.until("both run", func() bool { return s.owns("ours", "a", "b") })
	if got := s.state("a"); got != "runnable" {
		t.Fatalf("a is %q", got)
	}
	s.until("both are listed", s.listed("a", "b"))
}

func TestWhatAClientDeletesIsGoneAndMayComeAgain(t *testing.T) {
	s := newSpace(t)
	s.ours("ours")
	s.submit("a")
	s.until("a runs", func() bool { return s.owner("a") == "ours" })
	if err := s.client.DeleteTask("a"); err != nil {
		t.Fatal(err)
	}
	s.submit("b")
	s.until("b runs", func() bool { return s.owner("b") == "ours" })
	s.until("a is gone", s.listed("b"))
	s.submit("a")
	s.until("a runs again", func() bool { return s.owner("a") == "ours" })
}

func TestAnIdThatHasEndedEndsAtOnceWhenItIsSubmittedAgain(t *testing.T) {
	s := newSpace(t)
	s.submit("x")
	s.put(`{"state":"killed"}`, "state", "x")
	s.ours("ours")
	s.until("x is unscheduled", s.listed())
	s.submit("x")
	s.until("x is unscheduled again", s.listed())
	if got := s.state("x"); got != "killed" {
		t.Fatalf("x is %q", got)
	}
}
