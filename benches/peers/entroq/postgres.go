package main

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/shiblon/entroq"
	"github.com/shiblon/entroq/pkg/backend/eqpg"
)

// postgres starts a server in a new folder, and returns EntroQ on it. The server ends with this process.
func postgres(ctx context.Context, programs, folder string) (entroq.BackendOpener, error) {
	// The server gets its signal when the thread ends that has started it.
	runtime.LockOSThread()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	listener.Close()
	data := filepath.Join(folder, "data-"+port)
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	attributes, err := own(data)
	if err != nil {
		return nil, err
	}
	command := func(name string, arguments ...string) *exec.Cmd {
		command := exec.Command(filepath.Join(programs, name), arguments...)
		command.Dir, command.Stderr, command.SysProcAttr = data, os.Stderr, attributes
		return command
	}
	if err := command("initdb", "--auth=trust", "--username=postgres", "--pgdata", data).Run(); err != nil {
		return nil, fmt.Errorf("initdb: %w", err)
	}
	server := command("postgres", "-D", data, "-p", port, "-k", data, "-c", "listen_addresses=127.0.0.1",
		// EntroQ opens a connection for each call under way.
		"-c", "max_connections=1100")
	server.Stderr = nil
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	options := []eqpg.PGOpt{eqpg.WithDB("postgres"), eqpg.WithUsername("postgres"), eqpg.WithPassword("postgres")}
	db, err := eqpg.OpenDB(address, options...)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := answers(ctx, db); err != nil {
		return nil, err
	}
	if err := eqpg.InitSchema(ctx, db); err != nil {
		return nil, err
	}
	// The defaults of `eqpg serve`.
	options = append(options, eqpg.WithNoListen(), eqpg.WithHeartbeat(5*time.Second))
	return eqpg.Opener(address, options...), nil
}

// own gives the folder to the user postgres, if this process is root: PostgreSQL does not run as root.
func own(folder string) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		return attributes, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, os.Chown(folder, uid, gid)
}

// answers waits until the server takes queries.
func answers(ctx context.Context, db *sql.DB) error {
	var err error
	for range 300 {
		if err = db.PingContext(ctx); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("PostgreSQL does not answer: %w", err)
}
