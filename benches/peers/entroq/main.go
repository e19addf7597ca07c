// EntroQ behind its gRPC service, as a peer of `cargo xtask bench peers`.
//
// The job serve is the service: EntroQ in memory with its journal, as `eqmem serve --journal` runs it, or on a
// PostgreSQL that it starts, as `eqpg serve` runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiblon/entroq"
	pb "github.com/shiblon/entroq/api"
	"github.com/shiblon/entroq/pkg/backend/eqgrpc"
	"github.com/shiblon/entroq/pkg/backend/eqmem"
	"github.com/shiblon/entroq/pkg/eqsvcgrpc"
	"github.com/windlass-rs/windlass/benches/peers/gojob"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	hpb "google.golang.org/grpc/health/grpc_health_v1"
)

const queue = "noops"

func main() {
	gojob.Main(run)
}

func run(job gojob.Job) (gojob.Figures, error) {
	ctx := context.Background()
	if job.Name == "serve" {
		return gojob.Figures{}, serve(ctx, job)
	}
	client, err := entroq.New(ctx, eqgrpc.Opener(job.Text("store"), eqgrpc.WithInsecure()))
	if err != nil {
		return gojob.Figures{}, err
	}
	switch job.Name {
	case "submit":
		return submit(ctx, job, client)
	case "drain":
		return drain(ctx, job, client)
	}
	return gojob.Figures{}, fmt.Errorf("could not run job '%s'", job.Name)
}

func serve(ctx context.Context, job gojob.Job) error {
	folder, err := filepath.Abs(job.Text("dir"))
	if err != nil {
		return err
	}
	opener := eqmem.Opener(eqmem.WithJournal(folder))
	if job.Text("setting") == "postgresql" {
		if opener, err = postgres(ctx, job.Text("postgresql"), folder); err != nil {
			return err
		}
	}
	service, err := eqsvcgrpc.New(ctx, opener)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", job.Text("store"))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pb.RegisterEntroQServer(server, service)
	hpb.RegisterHealthServer(server, health.NewServer())
	return server.Serve(listener)
}

// all calls one function from as many callers as the job has slots, until it returns false or an error.
func all(job gojob.Job, call func() (bool, error)) error {
	slots := job.Number("slots")
	failed := make(chan error, slots)
	var callers sync.WaitGroup
	for range slots {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for {
				again, err := call()
				if err != nil {
					failed <- err
				}
				if err != nil || !again {
					return
				}
			}
		}()
	}
	callers.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// submit inserts one task at a time from each caller.
func submit(ctx context.Context, job gojob.Job, client *entroq.EntroQ) (gojob.Figures, error) {
	count, bytes, limit := job.Number("count"), job.Number("bytes"), job.Limit()
	var next, done atomic.Int64
	meter := gojob.Start()
	err := all(job, func() (bool, error) {
		n := int(next.Add(1)) - 1
		if n >= count || meter.Elapsed() > limit {
			return false, nil
		}
		value := entroq.WithValue(gojob.Payload(n, bytes))
		if _, err := client.Modify(ctx, entroq.InsertingInto(queue, value)); err != nil {
			return false, err
		}
		done.Add(1)
		return true, nil
	})
	return meter.Figures(int(done.Load())), err
}

// drain claims a task and deletes it, as a worker does whose handler does nothing.
func drain(ctx context.Context, job gojob.Job, client *entroq.EntroQ) (gojob.Figures, error) {
	// A deadline would also end the last calls with errors of their own.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(job.Limit(), cancel).Stop()
	count := int64(job.Number("count"))
	var done atomic.Int64
	meter := gojob.Start()
	var end atomic.Int64
	err := all(job, func() (bool, error) {
		task, err := client.Claim(ctx, entroq.From(queue), entroq.ClaimFor(time.Minute))
		if err == nil {
			_, err = client.Modify(ctx, entroq.Deleting(task.ID, task.Version))
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, context.Canceled):
			return false, nil
		case err != nil:
			return false, err
		}
		if done.Add(1) == count {
			end.Store(int64(meter.Elapsed()))
			cancel()
		}
		return true, nil
	})
	figures := meter.Figures(int(done.Load()))
	if last := end.Load(); last > 0 {
		// The other callers end a moment later.
		figures.Seconds = time.Duration(last).Seconds()
	}
	return figures, err
}
