// CurlyQ on Redis, as a peer of `cargo xtask bench peers`.
package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis/v7"
	"github.com/mcmathja/curlyq"
	"github.com/windlass-rs/windlass/benches/peers/gojob"
)

const queue = "noops"

func main() {
	gojob.Main(run)
}

func run(job gojob.Job) (gojob.Figures, error) {
	// A connection for each caller, or for each handler.
	client := redis.NewClient(&redis.Options{
		Addr:        job.Text("store"),
		PoolSize:    job.Number("slots"),
		PoolTimeout: job.Limit() + time.Minute,
		ReadTimeout: time.Minute,
	})
	facts, err := synced(client)
	if err != nil {
		return gojob.Figures{}, err
	}
	var figures gojob.Figures
	switch job.Name {
	case "submit":
		figures, err = submit(job, client)
	case "drain":
		figures, err = drain(job, client)
	case "later":
		figures, err = submit(job, client)
	case "sleepers":
		figures, err = sleepers(job, client)
	case "kills":
		figures, err = kills(job, client)
	case "lateness":
		figures, err = lateness(job, client)
	default:
		err = fmt.Errorf("could not run job '%s'", job.Name)
	}
	for name, text := range figures.Facts {
		facts[name] = text
	}
	figures.Facts = facts
	return figures, err
}

// synced reads back when the server syncs its log.
func synced(client *redis.Client) (map[string]string, error) {
	facts := map[string]string{}
	for _, name := range []string{"appendonly", "appendfsync"} {
		pair, err := client.ConfigGet(name).Result()
		if err != nil {
			return nil, err
		}
		facts[name] = fmt.Sprint(pair[1])
	}
	return facts, nil
}

// submit pushes one job at a time from each caller: to run at once, or in a year.
func submit(job gojob.Job, client *redis.Client) (gojob.Figures, error) {
	producer := curlyq.NewProducer(&curlyq.ProducerOpts{Client: client, Queue: queue, Logger: &curlyq.EmptyLogger{}})
	count, bytes, limit := job.Number("count"), job.Number("bytes"), job.Limit()
	var next, done atomic.Int64
	var callers sync.WaitGroup
	slots := job.Number("slots")
	failed := make(chan error, slots)
	meter := gojob.Start()
	for range slots {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for meter.Elapsed() < limit {
				n := int(next.Add(1)) - 1
				if n >= count {
					return
				}
				task := curlyq.Job{ID: gojob.ID(n), Data: []byte(gojob.Payload(n, bytes))}
				var err error
				if job.Name == "later" {
					_, err = producer.PerformAfter(year, task)
				} else {
					_, err = producer.Perform(task)
				}
				if err != nil {
					failed <- err
					return
				}
				done.Add(1)
			}
		}()
	}
	callers.Wait()
	figures := meter.Figures(int(done.Load()))
	select {
	case err := <-failed:
		return figures, err
	default:
		return figures, nil
	}
}

// consume starts a consumer with its defaults but for the number of handlers.
func consume(job gojob.Job, client *redis.Client, handler func(curlyq.Job) error) <-chan error {
	consumer := curlyq.NewConsumer(&curlyq.ConsumerOpts{
		Client:               client,
		Queue:                queue,
		Logger:               &curlyq.EmptyLogger{},
		ProcessorConcurrency: job.Number("slots"),
		PollerBufferSize:     job.Number("slots"),
	})
	failed := make(chan error, 1)
	go func() {
		failed <- consumer.ConsumeCtx(context.Background(), func(_ context.Context, task curlyq.Job) error {
			return handler(task)
		})
	}()
	return failed
}

// countRuns starts a consumer of no-ops, and counts those that have run.
func countRuns(job gojob.Job, client *redis.Client) (*atomic.Int64, <-chan error) {
	ran := new(atomic.Int64)
	failed := consume(job, client, func(curlyq.Job) error {
		ran.Add(1)
		return nil
	})
	return ran, failed
}

// drain runs no-ops until Redis has no data of a job.
func drain(job gojob.Job, client *redis.Client) (gojob.Figures, error) {
	count := job.Number("count")
	meter := gojob.Start()
	ran, failed := countRuns(job, client)
	for meter.Elapsed() < job.Limit() {
		select {
		case err := <-failed:
			return gojob.Figures{}, err
		case <-time.After(5 * time.Millisecond):
		}
		if ran.Load() < int64(count) {
			continue
		}
		left, err := client.HLen(queue + ":data").Result()
		if err != nil {
			return gojob.Figures{}, err
		}
		if left == 0 {
			return meter.Figures(count), nil
		}
	}
	return meter.Figures(int(ran.Load())), nil
}
