package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lytics/metafora"
	"github.com/lytics/metafora/statemachine"
	etcdv3 "go.etcd.io/etcd/client/v3"
)

// The tasks of a node of theirs go over to ours, one by one, and keep their states.
func TestTasksGoOverAndBack(t *testing.T) {
	s := newSpace(t)
	metaforas := s.theirs("theirs")
	all := []string{"t0", "t1", "t2", "t3"}
	s.submit(all...)
	s.until("theirs has all", func() bool { return s.owns("theirs", all...) })
	s.send("t1", statemachine.PauseMessage())
	s.send("t2", statemachine.SleepMessage(time.Now().Add(time.Hour)))
	s.until("t1 pauses, t2 sleeps", func() bool { return s.state("t1") == "paused" && s.state("t2") == "sleeping" })
	s.ours("ours")
	s.stays("ours takes nothing from theirs", func() bool { return s.owns("theirs", all...) })

	s.tell("theirs", metafora.CommandFreeze())
	s.until("theirs is frozen", metaforas.Frozen)
	s.tell("theirs", metafora.CommandStopTask("t0"))
	s.until("ours has t0", func() bool { return s.owner("t0") == "ours" })
	s.tell("theirs", metafora.CommandStopTask("t1"))
	s.tell("theirs", metafora.CommandStopTask("t2"))
	s.until("those that wait are nobody's", func() bool { return s.owns("", "t1", "t2") })
	if s.state("t1") != "paused" || s.state("t2") != "sleeping" {
		t.Fatalf("t1 is %q, t2 is %q", s.state("t1"), s.state("t2"))
	}
	s.send("t1", statemachine.RunMessage())
	s.until("ours runs t1", func() bool { return s.owner("t1") == "ours" && s.state("t1") == "runnable" })
	s.send("t2", statemachine.PauseMessage())
	s.until("ours has paused t2", func() bool { return s.state("t2") == "paused" })

	s.tell("theirs", metafora.CommandUnfreeze())
	s.until("theirs is not frozen", func() bool { return !metaforas.Frozen() })
	s.tell("ours", metafora.CommandFreeze())
	s.tell("ours", metafora.CommandStopTask("t0"))
	s.until("theirs has t0 again", func() bool { return s.owner("t0") == "theirs" && metaforas.runs("t0") })
}

// Nodes of one side stop, or die; the other takes their tasks.
func TestEachTakesTheTasksOfTheOther(t *testing.T) {
	s := newSpace(t)
	all := []string{"t0", "t1", "t2"}
	first := s.ours("ours-1")
	s.submit(append(all, "waits")...)
	s.until("ours has all", func() bool { return s.owns("ours-1", append(all, "waits")...) })
	s.send("waits", statemachine.PauseMessage())
	s.until("one is paused", func() bool { return s.state("waits") == "paused" && s.owner("waits") == "" })

	metaforas := s.theirs("theirs-1")
	s.until("theirs holds the one that waits", func() bool { return metaforas.runs("waits") })
	first.stop()
	s.until("theirs has all", func() bool { return s.owns("theirs-1", all...) })
	if s.state("t0") != "runnable" || s.state("waits") != "paused" {
		t.Fatalf("t0 is %q, the one that waits %q", s.state("t0"), s.state("waits"))
	}
	s.send("t2", statemachine.KillMessage())
	s.until("theirs has killed t2", func() bool { return s.state("t2") == "killed" && !s.exists("tasks", "t2") })

	second := s.ours("ours-2")
	metaforas.stop()
	s.until("ours has what runs", func() bool { return s.owns("ours-2", "t0", "t1") })
	s.until("the one that waits is nobody's", func() bool { return s.owner("waits") == "" })
	if s.state("waits") != "paused" {
		t.Fatalf("the one that waits is %q", s.state("waits"))
	}

	metaforas = s.theirs("theirs-2")
	second.kill()
	s.until("theirs takes over when the lease ends", func() bool { return s.owns("theirs-2", "t0", "t1") })
	s.until("theirs holds the one that waits", func() bool { return metaforas.runs("waits") })
	s.send("waits", statemachine.RunMessage())
	s.until("theirs runs it", func() bool { return s.state("waits") == "runnable" })
}

// Claimed and released by theirs without a transition, a task of ours keeps its checkpoint.
func TestASleeperOfOursKeepsItsDataWithTheirs(t *testing.T) {
	s := newSpace(t)
	s.ours("ours")
	s.submitTask(&task{Name: "a", Steps: 3, Pause: int(time.Hour.Milliseconds())})
	done := func() int {
		var state struct{ Data int }
		s.read(&state, "state", "a")
		return state.Data
	}
	waits := func(steps int) func() bool {
		return func() bool { return done() == steps && s.state("a") == "sleeping" && s.owner("a") == "" }
	}
	s.until("it sleeps after its first step", waits(1))
	metaforas := s.theirs("theirs")
	s.until("theirs holds it", func() bool { return s.owner("a") == "theirs" && metaforas.runs("a") })
	s.tell("theirs", metafora.CommandFreeze())
	s.until("theirs is frozen", metaforas.Frozen)
	s.tell("theirs", metafora.CommandStopTask("a"))
	s.until("it is released as it was", waits(1))
	s.send("a", statemachine.RunMessage())
	s.until("ours goes on with the second step", waits(2))
}

// Two of each, which come and go: every task has an owner, and nobody takes what another has.
func TestNobodyTakesWhatAnotherHas(t *testing.T) {
	s := newSpace(t)
	var ids []string
	for n := range 40 {
		ids = append(ids, fmt.Sprintf("c%03d", n))
	}
	every := func(yes func(id string) bool) func() bool {
		return func() bool {
			for _, id := range ids {
				if !yes(id) {
					return false
				}
			}
			return true
		}
	}
	claimed := every(func(id string) bool { return s.owner(id) != "" })
	since := s.now()
	firstOfTheirs, secondOfTheirs := s.theirs("theirs-1"), s.theirs("theirs-2")
	s.submit(ids[:20]...)
	s.until("theirs have the first half", func() bool {
		return len(firstOfTheirs.Tasks())+len(secondOfTheirs.Tasks()) == 20
	})
	s.ours("ours-1")
	secondOfOurs := s.ours("ours-2")
	s.submit(ids[20:]...)
	s.until("all are claimed", claimed)
	s.tell("theirs-2", metafora.CommandBalance())
	s.tell("ours-1", metafora.CommandBalance())
	firstOfTheirs.stop()
	s.until("all are claimed after a stop of theirs", claimed)
	secondOfOurs.stop()
	s.until("all are claimed after a stop of ours", claimed)
	secondOfTheirs.stop()
	s.until("the last one has all", func() bool { return s.owns("ours-1", ids...) })
	for _, id := range ids {
		s.send(id, statemachine.KillMessage())
	}
	s.until("all are killed", every(func(id string) bool { return s.state(id) == "killed" }))
	s.until("none is left", s.listed())

	claims, owners := 0, map[string]string{}
	for _, event := range s.happened(since) {
		key, value := string(event.Kv.Key), string(event.Kv.Value)
		if !strings.HasSuffix(key, "/owner") {
			continue
		}
		if event.Type == etcdv3.EventTypeDelete {
			delete(owners, key)
			continue
		}
		if owner, ok := owners[key]; ok && owner != value {
			t.Errorf("%s: of %s, taken by %s", key, owner, value)
		}
		owners[key] = value
		claims++
	}
	if claims < len(ids) {
		t.Errorf("only %d claims were seen", claims)
	}
}
