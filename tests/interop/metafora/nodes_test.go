package interop

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/lytics/metafora"
	"github.com/lytics/metafora/metcdv3"
	"github.com/lytics/metafora/statemachine"
	etcdv3 "go.etcd.io/etcd/client/v3"
)

// ours is a node of windlass: a process.
type ours struct {
	space   *space
	name    string
	command *exec.Cmd
	ended   chan struct{}
}

// ours starts one, and waits until it has joined.
func (s *space) ours(name string) *ours {
	s.t.Helper()
	command := exec.Command(variable(s.t, "INTEROP_NODE"), "etcd://"+s.endpoint+"/"+s.name+"?metafora-nodes=true", name)
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	node := &ours{space: s, name: name, command: command, ended: make(chan struct{})}
	go func() {
		command.Wait()
		close(node.ended)
	}()
	s.t.Cleanup(func() {
		node.kill()
		if s.t.Failed() {
			s.t.Logf("%s has said:\n%s", name, said.String())
		}
	})
	s.until(name+" joins", func() bool {
		select {
		case <-node.ended:
			s.t.Fatalf("%s has ended: %v", name, command.ProcessState)
		default:
		}
		return s.exists("nodes", name, "_metafora")
	})
	return node
}

// stop lets it give its tasks back, and waits for its end.
func (o *ours) stop() {
	o.space.t.Helper()
	o.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-o.ended:
	case <-time.After(deadline):
		o.space.t.Fatalf("%s does not stop", o.name)
	}
}

// kill ends it at once: its lease lives on for a while.
func (o *ours) kill() {
	o.command.Process.Kill()
	<-o.ended
}

// frozen tells whether it says so of itself.
func (o *ours) frozen() bool {
	var status struct{ Frozen bool }
	o.space.read(&status, "nodes", o.name, "_metafora")
	return status.Frozen
}

// theirs is a consumer of Metafora, in this process.
type theirs struct {
	*metafora.Consumer
	stop func()
}

// theirs starts one, whose handler returns what it is told, as that of our node does.
func (s *space) theirs(name string) *theirs {
	s.t.Helper()
	config := metcdv3.NewConfig(name, s.name)
	config.NewTaskFunc = func(id, value string) metafora.Task {
		t := &task{Name: id}
		// There is no value when the task has just been deleted.
		if err := json.Unmarshal([]byte(value), t); err != nil && value != "" {
			s.t.Errorf("%s cannot read %s: %v", name, value, err)
		}
		return t
	}
	handler := func(_ metafora.Task, told <-chan *statemachine.Message) *statemachine.Message {
		return <-told
	}
	coordinator, wrapped, balancer := metcdv3.New(config, s.etcd, handler)
	// The shortest that it takes.
	coordinator.(*metcdv3.EtcdV3Coordinator).LeaseDuration = 10 * time.Second
	consumer, err := metafora.NewConsumer(coordinator, wrapped, balancer)
	if err != nil {
		s.t.Fatal(err)
	}
	var once sync.Once
	node := &theirs{consumer, func() { once.Do(consumer.Shutdown) }}
	s.t.Cleanup(node.stop)
	go consumer.Run()
	return node
}

// runs tells whether its handler is at work on a task.
func (c *theirs) runs(id string) bool {
	for _, running := range c.Tasks() {
		if running.Task().ID() == id {
			return true
		}
	}
	return false
}

// tell sends a command to a node of either side, and waits until it has been taken.
func (s *space) tell(node string, command metafora.Command) {
	s.t.Helper()
	if err := s.client.SubmitCommand(node, command); err != nil {
		s.t.Fatal(err)
	}
	s.until(node+" takes its command", func() bool {
		for _, kv := range s.get(s.key("nodes", node, "commands")+"/", etcdv3.WithPrefix()).Kvs {
			// What a node of Metafora says of itself there is no command.
			if path.Base(string(kv.Key)) != metcdv3.MetadataPath {
				return false
			}
		}
		return true
	})
}
