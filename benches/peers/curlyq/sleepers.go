package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis/v7"
	"github.com/windlass-rs/windlass/benches/peers/gojob"
)

const (
	// year is how long the jobs of later and sleepers sleep.
	year = 365 * 24 * time.Hour
	// asleep is how long the worker of sleepers has run when its memory is read.
	asleep = 5 * time.Second
)

// sleepers starts a worker beside jobs that are due in a year. Redis has its data in memory, so its resident set stands
// for the bytes of files; a fact has those of its log.
func sleepers(job gojob.Job, client *redis.Client) (gojob.Figures, error) {
	count := job.Number("count")
	meter := gojob.Start()
	ran, failed := countRuns(job, client)
	select {
	case err := <-failed:
		return gojob.Figures{}, err
	case <-time.After(asleep):
	}
	if ran.Load() > 0 {
		return gojob.Figures{}, fmt.Errorf("%d jobs that are due in a year have run", ran.Load())
	}
	figures := meter.Figures(count)
	var err error
	if figures.Resident, err = gojob.ResidentBytes(); err != nil {
		return figures, err
	}
	if figures.Files, err = redisBytes(client); err != nil {
		return figures, err
	}
	log, err := folderBytes(job.Text("dir"))
	figures.Facts = map[string]string{"log of Redis": fmt.Sprintf("%d MiB for %d jobs", log>>20, count)}
	return figures, err
}

// redisBytes returns the resident set of the server.
func redisBytes(client *redis.Client) (uint64, error) {
	info, err := client.Info("memory").Result()
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(info, "\r\n") {
		if bytes, found := strings.CutPrefix(line, "used_memory_rss:"); found {
			return strconv.ParseUint(bytes, 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO memory has no used_memory_rss")
}

// folderBytes returns the bytes of all files of a folder.
func folderBytes(folder string) (int64, error) {
	var bytes int64
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}
