// Package interop runs nodes of windlass beside Metafora itself: its client, its commander and its
// consumers work on one namespace of etcd with ours.
//
// `cargo xtask interop` starts what it needs. INTEROP_ETCD is where etcd answers (HOST:PORT),
// INTEROP_NODE the program that is our node (the example beside_metafora).
package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/lytics/metafora"
	"github.com/lytics/metafora/metcdv3"
	"github.com/lytics/metafora/statemachine"
	etcdv3 "go.etcd.io/etcd/client/v3"
)

// How long anything may take before it counts as never; a node that died is missed after its lease.
const deadline = 60 * time.Second

// space is a namespace of its own for one test, with Metafora's client and commander on it.
type space struct {
	t         *testing.T
	name      string
	endpoint  string
	etcd      *etcdv3.Client
	client    metafora.Client
	commander statemachine.Commander
}

func newSpace(t *testing.T) *space {
	t.Helper()
	endpoint := variable(t, "INTEROP_ETCD")
	etcd, err := etcdv3.New(etcdv3.Config{Endpoints: []string{endpoint}, DialTimeout: deadline})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcd.Close() })
	name := fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())
	s := &space{
		t:         t,
		name:      name,
		endpoint:  endpoint,
		etcd:      etcd,
		client:    metcdv3.NewClient(name, etcd),
		commander: metcdv3.NewCommander(name, etcd),
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the namespace at the end:\n%s", s.dump())
		}
	})
	return s
}

func variable(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run this by `cargo xtask interop`", name)
	}
	return value
}

// context ends at the deadline.
func (s *space) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	s.t.Cleanup(cancel)
	return ctx
}

// until asks again and again until the answer is yes.
func (s *space) until(what string, yes func() bool) {
	s.t.Helper()
	end := time.Now().Add(deadline)
	for !yes() {
		if time.Now().After(end) {
			s.t.Fatalf("not within %v: %s", deadline, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stays asks for a while whether something that must not change is still so.
func (s *space) stays(what string, yes func() bool) {
	s.t.Helper()
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		if !yes() {
			s.t.Fatalf("no longer: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *space) key(parts ...string) string {
	return path.Join(append([]string{"/", s.name}, parts...)...)
}

func (s *space) get(key string, options ...etcdv3.OpOption) *etcdv3.GetResponse {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	found, err := s.etcd.Get(ctx, key, options...)
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

func (s *space) exists(parts ...string) bool {
	s.t.Helper()
	return len(s.get(s.key(parts...)).Kvs) > 0
}

// put stores a value as it is, without anybody's help.
func (s *space) put(value string, parts ...string) {
	s.t.Helper()
	if _, err := s.etcd.Put(s.context(), s.key(parts...), value); err != nil {
		s.t.Fatal(err)
	}
}

// read decodes the JSON of a key; false if it is not there.
func (s *space) read(into any, parts ...string) bool {
	s.t.Helper()
	found := s.get(s.key(parts...))
	if len(found.Kvs) == 0 {
		return false
	}
	if err := json.Unmarshal(found.Kvs[0].Value, into); err != nil {
		s.t.Fatalf("%s cannot be read: %v", found.Kvs[0].Value, err)
	}
	return true
}

// owner is the node that has a task; none: nobody.
func (s *space) owner(id string) string {
	s.t.Helper()
	var owner struct{ Node string }
	s.read(&owner, "tasks", id, "owner")
	return owner.Node
}

// owns tells whether a node has all these tasks.
func (s *space) owns(node string, ids ...string) bool {
	s.t.Helper()
	for _, id := range ids {
		if s.owner(id) != node {
			return false
		}
	}
	return true
}

// state is the code of a task's state, as Metafora reads it; none: there is no state.
func (s *space) state(id string) string {
	s.t.Helper()
	found := s.get(s.key("state", id))
	if len(found.Kvs) == 0 {
		return ""
	}
	return s.code(found.Kvs[0].Value)
}

// code reads a state with Metafora's own code, and lets Metafora check it.
func (s *space) code(value []byte) string {
	s.t.Helper()
	var state statemachine.State
	if err := json.Unmarshal(value, &state); err != nil {
		s.t.Fatalf("Metafora cannot read %s: %v", value, err)
	}
	if err := state.Valid(); err != nil {
		s.t.Fatalf("Metafora calls %s invalid: %v", value, err)
	}
	return string(state.Code)
}

// now is the revision of what happens next.
func (s *space) now() int64 {
	s.t.Helper()
	return s.get(s.key()).Header.Revision + 1
}

// claimedSince tells whether a node has a task by a claim that it made at this revision or later.
func (s *space) claimedSince(since int64, node, id string) bool {
	s.t.Helper()
	found := s.get(s.key("tasks", id, "owner"))
	return len(found.Kvs) > 0 && found.Kvs[0].CreateRevision >= since && s.owner(id) == node
}

// passes waits until the state of a task has been all of these, one after the other, since a
// revision. States that have passed already are seen too.
func (s *space) passes(since int64, id string, codes ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	for answer := range s.etcd.Watch(ctx, s.key("state", id), etcdv3.WithRev(since)) {
		for _, event := range answer.Events {
			if event.Type == etcdv3.EventTypePut && s.code(event.Kv.Value) == codes[0] {
				codes = codes[1:]
			}
			if len(codes) == 0 {
				return
			}
		}
	}
	s.t.Fatalf("%s has not become %q", id, codes)
}

// happened is everything that the namespace has seen since a revision, until now.
func (s *space) happened(since int64) []*etcdv3.Event {
	s.t.Helper()
	end := s.key() + ".end"
	if _, err := s.etcd.Put(s.context(), end, ""); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	var events []*etcdv3.Event
	for answer := range s.etcd.Watch(ctx, s.key(), etcdv3.WithPrefix(), etcdv3.WithRev(since)) {
		for _, event := range answer.Events {
			if string(event.Kv.Key) == end {
				return events
			}
			events = append(events, event)
		}
	}
	s.t.Fatal("the events did not come to an end")
	return nil
}

// dump shows every key of the namespace, for one who looks into a failure.
func (s *space) dump() string {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	found, err := s.etcd.Get(ctx, s.key()+"/", etcdv3.WithPrefix())
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, kv := range found.Kvs {
		fmt.Fprintf(&text, "%s = %s\n", kv.Key, kv.Value)
	}
	return text.String()
}
