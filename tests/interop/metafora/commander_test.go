package interop

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lytics/metafora/statemachine"
	etcdv3 "go.etcd.io/etcd/client/v3"
)

func (s *space) send(id string, message *statemachine.Message) {
	s.t.Helper()
	if err := s.commander.Send(id, message); err != nil {
		s.t.Fatal(err)
	}
}

// taken tells whether the commander's slot of a task is free again.
func (s *space) taken(id string) func() bool {
	return func() bool { return !s.exists("tasks", id, "commands") }
}

func TestACommanderPausesSleepsAndRunsATask(t *testing.T) {
	s := newSpace(t)
	s.ours("ours")
	runs := func() bool { return s.owner("a") == "ours" && s.state("a") == "runnable" }
	s.submit("a")
	s.until("a runs", runs)

	s.send("a", statemachine.PauseMessage())
	s.until("a pauses, and is nobody's", func() bool { return s.state("a") == "paused" && s.owner("a") == "" })
	s.send("a", statemachine.SleepMessage(time.Now().Add(time.Hour)))
	s.until("a sleeps", func() bool { return s.state("a") == "sleeping" })
	s.send("a", statemachine.CheckpointMessage())
	s.until("the checkpoint is taken", s.taken("a"))
	if got := s.state("a"); got != "sleeping" {
		t.Fatalf("a is %q after a checkpoint", got)
	}
	s.send("a", statemachine.RunMessage())
	s.until("a runs again", runs)
}

func TestATaskThatACommanderSendsToSleepWakesByItself(t *testing.T) {
	s := newSpace(t)
	s.ours("ours")
	s.submit("a")
	s.until("a runs", func() bool { return s.owner("a") == "ours" })
	since := s.now()
	s.send("a", statemachine.SleepMessage(time.Now().Add(2*time.Second)))
	s.passes(since, "a", "sleeping", "runnable")
	s.until("a runs", func() bool { return s.owner("a") == "ours" })
}

func TestATaskThatACommanderReleasesIsClaimedAnew(t *testing.T) {
	s := newSpace(t)
	s.ours("ours")
	s.submit("a")
	s.until("a runs", func() bool { return s.owner("a") == "ours" })
	since := s.now()
	s.send("a", statemachine.ReleaseMessage())
	s.until("a is claimed again", func() bool { return s.claimedSince(since, "ours", "a") })
	if got := s.state("a"); got != "runnable" {
		t.Fatalf("a is %q", got)
	}
}

func TestACommanderEndsTasks(t *testing.T) {
	s := newSpace(t)
	s.ours("ours")
	s.submit("a", "b")
	s.until("both run", func() bool { return s.owns("ours", "a", "b") })
	s.send("a", statemachine.KillMessage())
	s.until("a is killed", func() bool { return s.state("a") == "killed" })
	s.until("a is unscheduled", s.listed("b"))
	s.send("b", statemachine.CompleteMessage())
	s.until("b is completed", func() bool { return s.state("b") == "completed" })
	s.until("b is unscheduled", s.listed())
}

// Only a handler may return an error: our nodes say so, and the task goes on.
func TestACommandThatNobodyMaySendIsRejected(t *testing.T) {
	s := newSpace(t)
	s.ours("ours")
	s.submit("a")
	s.until("a runs", func() bool { return s.owner("a") == "ours" })
	s.send("a", statemachine.ErrorMessage(errors.New("no")))
	s.until("it is taken", s.taken("a"))
	s.until("it is rejected", func() bool {
		outcomes := s.get(s.key("outcomes", "a")+"/", etcdv3.WithPrefix()).Kvs
		return len(outcomes) == 1 && strings.Contains(string(outcomes[0].Value), `"rejected"`)
	})
	if s.state("a") != "runnable" || s.owner("a") != "ours" {
		t.Fatalf("a is %q, of %q", s.state("a"), s.owner("a"))
	}
}
