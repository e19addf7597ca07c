package interop

import (
	"testing"

	"github.com/lytics/metafora"
)

func TestANodeOfOursObeysMetaforasNodeCommands(t *testing.T) {
	s := newSpace(t)
	first := s.ours("first")
	s.submit("a")
	s.until("a runs", func() bool { return s.owner("a") == "first" })

	s.tell("first", metafora.CommandFreeze())
	s.until("it is frozen", first.frozen)
	s.submit("b")
	s.stays("a frozen node claims nothing", func() bool { return s.owner("b") == "" })
	s.tell("first", metafora.CommandStopTask("a"))
	s.until("a is released", func() bool { return s.owner("a") == "" })

	s.tell("first", metafora.CommandUnfreeze())
	s.until("b runs", func() bool { return s.owner("b") == "first" })
	// It was told to stop a, so it leaves a to others for 30 s.
	s.ours("second")
	s.until("a runs elsewhere", func() bool { return s.owner("a") == "second" })

	// There is nothing to give back; it is obeyed all the same.
	s.tell("first", metafora.CommandBalance())
	s.tell("second", metafora.CommandBalance())
	s.stays("both keep what they have", func() bool { return s.owns("second", "a") && s.owns("first", "b") })
}
