package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-redis/redis/v7"
	"github.com/mcmathja/curlyq"
	"github.com/windlass-rs/windlass/benches/peers/gojob"
)

const (
	// idle is how long the worker of lateness has no task before the first one.
	idle = time.Second
	// pace is the time from one submit of lateness to the next.
	pace = 10 * time.Millisecond
)

// kills runs no-ops until the process is killed or Redis has no data of a job. Each handler appends the number of its
// task to a file, in one write.
func kills(job gojob.Job, client *redis.Client) (gojob.Figures, error) {
	runs, err := os.OpenFile(job.Text("runs"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return gojob.Figures{}, err
	}
	count := job.Number("count")
	meter := gojob.Start()
	failed := consume(job, client, func(task curlyq.Job) error {
		if _, err := runs.WriteString(string(task.Data[:gojob.Digits]) + "\n"); err != nil {
			fmt.Fprintln(os.Stderr, "error: could not append to the file of runs:", err)
			os.Exit(1)
		}
		return nil
	})
	for {
		left, err := client.HLen(queue + ":data").Result()
		if err != nil {
			return gojob.Figures{}, err
		}
		if left == 0 || meter.Elapsed() >= job.Limit() {
			return meter.Figures(count - int(left)), nil
		}
		select {
		case err := <-failed:
			return gojob.Figures{}, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// lateness submits tasks at a fixed pace to an idle worker of this process.
func lateness(job gojob.Job, client *redis.Client) (gojob.Figures, error) {
	count, bytes := job.Number("count"), job.Number("bytes")
	starts := make(chan int, count)
	called, started := make([]time.Time, count), make([]time.Time, count)
	failed := consume(job, client, func(task curlyq.Job) error {
		now := time.Now()
		var number int
		if _, err := fmt.Sscanf(string(task.Data[:gojob.Digits]), "%d", &number); err != nil {
			return err
		}
		// A second start of a task would be of a task that has failed, and none fails.
		started[number] = now
		starts <- number
		return nil
	})
	time.Sleep(idle)
	producer := curlyq.NewProducer(&curlyq.ProducerOpts{Client: client, Queue: queue, Logger: &curlyq.EmptyLogger{}})
	meter := gojob.Start()
	ticks := time.NewTicker(pace)
	defer ticks.Stop()
	refused := make(chan error, count)
	var callers sync.WaitGroup
	for n := range count {
		<-ticks.C
		callers.Add(1)
		go func() {
			defer callers.Done()
			data := []byte(gojob.Payload(n, bytes))
			called[n] = time.Now()
			if _, err := producer.Perform(curlyq.Job{ID: gojob.ID(n), Data: data}); err != nil {
				refused <- err
			}
		}()
	}
	callers.Wait()
	end := time.After(job.Limit())
	times := make([]time.Duration, 0, count)
	for len(times) < count {
		select {
		case n := <-starts:
			times = append(times, started[n].Sub(called[n]))
		case err := <-refused:
			return gojob.Figures{}, err
		case err := <-failed:
			return gojob.Figures{}, err
		case <-end:
			return gojob.Figures{}, fmt.Errorf("%d of %d tasks started in time", len(times), count)
		}
	}
	return meter.FiguresOfTimes(times), nil
}
